"""A Unit made by hand, to call a handler without a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from gapless.consume.unit import Source, Unit
from gapless.keys import Partition
from gapless.log.event import NewEvent, Row
from gapless.log.record import record


def make_unit(
    events: Iterable[object],
    *,
    topic: str = "test",
    partition: int = 0,
    first_offset: int = 1,
    group: str = "testing",
    attempt: int = 1,
) -> Unit:
    """Return a unit of these events, as a handler receives it.

    events: NewEvents, or payloads; one at least. first_offset: of the first of them, from 1.
    attempt: how many calls of the handler there were, including this one.
    Events without a transaction_id share one, and were created at the beginning of 2000.
    Raises ValueError without any event, PublishError for an event that cannot be stored.
    """
    rows = [_row(n, event) for n, event in enumerate(events, start=first_offset)]
    if not rows:
        raise ValueError("a unit has one event at least")
    place = Partition(group_id=group, topic=topic, topic_id=0, partition_id=partition)
    return Unit(Source(place, _no_more, len(rows), attempt), first_offset, rows)


def _row(n: int, event: object) -> Row:
    made = event if isinstance(event, NewEvent) else NewEvent(payload=event)
    payload, key, event_type, headers, host_id, user_id, transaction_id = record(made)
    return (
        n,
        key,
        event_type,
        None if payload is None else payload.encode(),
        None if headers is None else headers.encode(),
        host_id,
        user_id,
        None if transaction_id is None else UUID(transaction_id),
        1,
        0,
        None,
        None,
    )


def _no_more(ids: Sequence[int]) -> list[Any]:
    raise AssertionError(f"all events are here, not to be read: {ids}")
