"""Take the next open events of a partition, in the transaction that is open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import psycopg

from gapless.consume.session import explain
from gapless.consume.unit import Source, Unit
from gapless.db.wire import fetch_all
from gapless.errors import HoleError, OverrunError, one_line
from gapless.features.queue.place import QueuePlace
from gapless.log.event import Row
from gapless.log.read import ROWS, fetch

_COLUMNS = 9  # of a piece of the log, before those of an event
_HOLE = "GL410"

TakeOutcome = Literal["claimed", "idle", "held", "noted", "moved", "busy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The taken events: one unit an event, in offset order; none unless the outcome is "claimed".

    idle: there is none. held: the same, but others have a block in hand, whose rest may be open
    once they have begun. noted: the remaining events have to be reserved first. moved: look for the
    places again. busy: another session moves the group.
    """

    outcome: TakeOutcome
    claim_xid: str = ""
    units: list[Unit]

    @property
    def first_offset(self) -> int:
        return self.units[0].first_offset

    @property
    def last_offset(self) -> int:
        return self.units[-1].first_offset


def take_next(
    place: QueuePlace, batch_size: int, hint: int | None, *, token: str | None = None
) -> Taken:
    """Take at most `batch_size` events, from `hint` on, or from the floor.

    Before: a transaction is open. After: no other session gets them before it ends; they are
    finished (Q1) if it commits. token: it reserves them instead of finishing them; no transaction
    is open.
    Raises HoleError when events are missing, OverrunError when retention dropped them.
    """
    partition, queue = place.partition, place.queue
    params: dict[str, object] = {
        "group_id": partition.group_id,
        "topic_id": partition.topic_id,
        "partition_id": partition.partition_id,
        "lease_no": place.lease_no,
        "block": place.block,
        "batch_size": batch_size,
        "hint": hint,
    }
    name = "take_next"
    if token is not None:
        name = "take_reserved"
        params |= {
            "worker": queue.worker,
            "token": token,
            "visibility_s": queue.terms.visibility_s,
        }
    try:
        answer: list[Any] = fetch_all(queue.conn, "queue", name, params, form=ROWS)
    except psycopg.Error as error:
        if error.sqlstate == _HOLE:
            raise HoleError(one_line(error)) from error
        explain(error)  # the error of the previous COMMIT may arrive with it
        raise
    pieces = [row[:_COLUMNS] for row in answer if row[0] is not None]
    outcome, first, last, xid = pieces[0][:4]
    if outcome in ("hole", "overrun", "beyond"):
        _refuse(str(outcome), place, first, last)
    if outcome != "claimed":
        return Taken(outcome=outcome, units=[])
    rows: dict[int, Row] = {row[_COLUMNS]: row[_COLUMNS:] for row in answer[len(pieces) :]}
    units: list[Unit] = []
    for *_, base, message_ids, _, line in pieces:
        units += _units(place, int(base), message_ids, line or 1, rows)
    return Taken(outcome="claimed", claim_xid=str(xid), units=units)


def unit_of(
    place: QueuePlace, offset: int, row: Row, *, timeline: int = 1, attempt: int = 1
) -> Unit:
    """Return one event as the unit that a queue's handler is called with."""
    source = Source(place.partition, partial(fetch, place.queue.conn), 1, attempt, ((0, timeline),))
    return Unit(source, offset, [row])


def _units(
    place: QueuePlace, base: int, message_ids: list[int], timeline: int, rows: dict[int, Row]
) -> list[Unit]:
    source = Source(place.partition, partial(fetch, place.queue.conn), 1, 1, ((0, timeline),))
    try:
        return [
            Unit(source, base + at, [rows[message_id]]) for at, message_id in enumerate(message_ids)
        ]
    except KeyError as missing:
        first = base + message_ids.index(missing.args[0])
        raise HoleError(
            f"{place.partition}: the event with id {missing} is missing from outbox_message_t: "
            f"restore it, or gapless skip {place.partition}@{first} continues without it",
            missing_id=missing.args[0],
            first_offset=first,
        ) from None


def _refuse(outcome: str, place: QueuePlace, first: object, last: object) -> None:
    where = f"{place.partition}: offsets {first} to {last}"
    if outcome == "overrun":
        raise OverrunError(
            f"{where} were dropped by retention before the group handled them: "
            f"gapless skip {place.partition}@{first} continues without them"
        )
    if outcome == "beyond":
        raise HoleError(
            f"{place.partition}: the group is at offset {first}, beyond the end of the log, where "
            f"the next event had offset {last}: gapless seek {place.partition}@{last} --pause --yes"
        )
    raise HoleError(
        f"{where} are missing from the log: restore them, or gapless skip "
        f"{place.partition}@{first} continues without them"
    )
