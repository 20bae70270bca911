"""Events with a dedupe_key, for later or for one group: their parameters, and their results.

A key and its event are stored by one SQL function (sql/log/functions/publish/publish_once.sql), so
no session ever finds one without the other. Many events go in blocks, one statement for each: COPY
can neither skip duplicates nor schedule events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Self
from uuid import UUID

from gapless.failpoints import hit
from gapless.log.record import (
    columns,
    delay_text,
    group_text,
    is_special,
    key_text,
    moment_text,
    subscription_text,
)

NAMES: Final = ("publish_once", "publish_each")  # the queries whose rows told() reads
_BLOCK = 200  # events in a statement
_BLOCK_BYTES = 512 * 1024  # of payloads; a statement makes five copies of them
_Columns = Mapping[str, Sequence[str | None] | None]


class Published(UUID):
    """The transaction_id that publish() returns for events with a dedupe_key, or for later.

    For one event that is a duplicate, it is the transaction_id of the event that came first; for
    many that are all duplicates, that of the first one's. Otherwise it is the usual one.
    duplicates: the number of events that were duplicates, and not stored. duplicate: all were.
    stored: the number of events that were stored.
    scheduled_ids: the numbers of the scheduled events, in order: for gapless.cancel().
    """

    __slots__ = ("duplicate", "duplicates", "scheduled_ids")
    duplicate: bool
    duplicates: int
    scheduled_ids: tuple[int, ...]

    def __init__(
        self,
        transaction_id: str,
        *,
        duplicates: int,
        stored: int,
        scheduled_ids: Sequence[int] = (),
    ) -> None:
        super().__init__(transaction_id)
        # A UUID does not allow assignments.
        object.__setattr__(self, "duplicates", duplicates)
        object.__setattr__(self, "duplicate", not stored)
        object.__setattr__(self, "scheduled_ids", tuple(scheduled_ids))

    def __reduce__(self) -> tuple[Any, ...]:
        stored = int(not self.duplicate)
        return _published, (str(self), self.duplicates, stored, self.scheduled_ids)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Split:
    """Many events: those before the first special one go by COPY, the rest in blocks, in order."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._rest: Iterator[Any] = iter(())

    def unkeyed(self, made_of: Callable[[object], tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the events before the first special one, by `made_of`. Call it once."""
        for event in self._events:
            made = made_of(event)
            if is_special(event):
                self._rest = chain((event,), self._events)
                return
            yield made

    def blocks(self, topic: str) -> Iterator[dict[str, Any]]:
        """Yield the parameters of publish_each for all events that unkeyed() left."""
        for block in blocks_of(self._rest):
            yield block_of(topic, block, columns(block))


def blocks_of(events: Iterator[Any]) -> Iterator[list[Any]]:
    """Yield the events in lists that a statement can carry."""
    block: list[Any] = []
    size_bytes = 0
    for event in events:
        payload = event.payload
        size_bytes += len(payload) if isinstance(payload, bytes | str) else 0
        block.append(event)
        if len(block) == _BLOCK or size_bytes >= _BLOCK_BYTES:
            yield block
            block, size_bytes = [], 0
    if block:
        yield block


def told(row: Sequence[Any] | None) -> Published:
    """Return the result for the caller, from the row of publish_once or publish_each."""
    assert row is not None
    hit("keyed.stored")
    return _published(str(row[0]), row[1], row[2], row[3])


def summed(rows: Sequence[Sequence[Any]], own: UUID | None = None, stored: int = 0) -> UUID:
    """Return the caller's result of several statements; a row of only an id has no special event.

    own: the transaction's id, which counts if any event was stored, or without a row. stored: the
    number of events that were stored beside these rows.
    """
    all_told = [told(row) if len(row) > 1 else _published(str(row[0]), 0, 1) for row in rows]
    if own is not None and not all_told:
        return own
    stored += sum(not each.duplicate for each in all_told)
    known = next((each for each in all_told if not each.duplicate), all_told[0])
    scheduled = [number for each in all_told for number in each.scheduled_ids]
    duplicates = sum(each.duplicates for each in all_told)
    return _published(str(own if own and stored else known), duplicates, stored, scheduled)


def block_of(topic: str, events: Sequence[Any], columns: _Columns) -> dict[str, Any]:
    """Return the parameters of publish_each. `columns`: the values of the events."""
    return {
        "topic": topic,
        **columns,
        "dedupe_key": [key_text(event.dedupe_key) for event in events],
        "deliver_at": [moment_text(event.deliver_at) for event in events],
        "deliver_in": [delay_text(event.deliver_in) for event in events],
        "to_group": [group_text(event.to_group) for event in events],
        "to_subscription": [
            subscription_text(event.to_subscription, event.to_group) for event in events
        ],
    }


def _published(
    transaction_id: str, duplicates: int, stored: int, scheduled_ids: Sequence[int] | None = ()
) -> Published:
    return Published(
        transaction_id, duplicates=duplicates, stored=stored, scheduled_ids=scheduled_ids or ()
    )
