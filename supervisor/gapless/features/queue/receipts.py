"""Events that are reserved: for a time, by a receipt, in no transaction (Q2).

The holder of a reservation has the event in hand until a deadline; a late call gets GL003.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Literal

import psycopg

from gapless.consume.aside.record import tell_death
from gapless.consume.unit import Unit
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import Verdict
from gapless.db.wire import fetch_all
from gapless.errors import HoleError, ReceiptError, one_line
from gapless.features.queue.place import Queue, QueuePlace
from gapless.features.queue.take import TakeOutcome, take_next, unit_of
from gapless.log.read import ROWS

_COLUMNS = 8  # of a reservation, before those of an event
_LOST = "GL003"
_HOLE = "GL410"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """An event that is reserved. attempts: calls that ended badly before.

    crashes: calls that began in a row and did not end, this one included. is_letter: it was set
    aside before. was_dead: a person asked for this attempt.
    """

    place: QueuePlace
    receipt: str
    unit: Unit
    attempts: int
    crashes: int
    is_letter: bool
    was_dead: bool

    @property
    def deaths(self) -> int:
        """The number of workers that have died at it."""
        return self.crashes - 1

    def is_poison(self, crashes_max: int) -> bool:
        """Tell whether more than crashes_max died at it; the first one had other events, too."""
        return self.deaths > crashes_max


def reserve(
    queue: Queue,
    topic: str,
    places: dict[int, QueuePlace],
    events: int,
    visibility_s: float,
    what: Literal["any", "aside"] = "any",
) -> list[Reserved]:
    """Reserve at most `events` of a topic; those at which a worker died come one at a time.

    aside: only events that lapsed, were noted, or waited for another attempt and are due.
    places: by partition; a partition that is not among them gets a place of its own.
    Raises HoleError when a partition stands before a hole, and no other has an event.
    """
    params = {
        "group_id": queue.group_id,
        "topic_id": queue.topics[topic],
        "max_events": events,
        "visibility_s": visibility_s,
        "worker": queue.worker,
        "what": what,
    }
    found: list[Reserved] = []
    try:
        answer: list[Any] = fetch_all(queue.conn, "queue", "reserve", params, form=ROWS)
    except psycopg.Error as error:
        if error.sqlstate == _HOLE:
            raise HoleError(one_line(error)) from error
        raise
    for row in answer:
        receipt, partition_id, offset, attempts, crashes, is_letter, was_dead, line = row[:_COLUMNS]
        place = places.get(partition_id)
        if place is None:
            place = QueuePlace(queue, queue.job(topic, partition_id), 0, 0, 0)
        unit = unit_of(
            place,
            offset,
            row[_COLUMNS:],
            timeline=line or 1,
            attempt=attempts + crashes,
        )
        found.append(
            Reserved(
                place=place,
                receipt=receipt,
                unit=unit,
                attempts=attempts,
                crashes=crashes,
                is_letter=is_letter,
                was_dead=was_dead,
            )
        )
    return found


def reserve_next(place: QueuePlace, events: int) -> tuple[list[Reserved], TakeOutcome]:
    """Reserve at most `events` fresh events of a partition, from its hint on.

    Raises HoleError when events are missing.
    """
    token = _token()
    taken = take_next(place, events, place.hint, token=token)
    if taken.outcome != "claimed":
        return [], taken.outcome
    first, last = taken.first_offset, taken.last_offset
    place.took(last)
    place.open = max(0, place.open - len(taken.units))
    found = [
        Reserved(
            place=place,
            receipt=f"R{place.lease_no}:{first}:{last}:{token}",
            unit=unit,
            attempts=0,
            crashes=1,
            is_letter=False,
            was_dead=False,
        )
        for unit in taken.units
    ]
    return found, taken.outcome


def _token() -> str:
    """Return a new UUID as text; uuid4() takes ten times as long."""
    made = token_hex(16)
    return f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:]}"


def begin_reserved(queue: Queue, reserved: Reserved) -> str:
    """Within the handler's transaction, before its call: let the COMMIT acknowledge it.

    Return the argument of allow_commit(). Raises ReceiptError when it is no longer ours.
    """
    with _receipts():
        ((xid,),) = fetch_all(queue.conn, "queue", "begin_receipt", _one(reserved))
    return str(xid)


def acknowledge(queue: Queue, handled: Sequence[Reserved]) -> list[Reserved]:
    """Acknowledge events in one transaction; return those whose reservation was lost."""
    params = _runs(handled)
    try:
        with _receipts():
            fetch_all(queue.conn, "queue", "acknowledge", params)
    except ReceiptError:
        if len(handled) == 1:
            return list(handled)
        # One was lost: single calls find it.
        return [lost for each in handled for lost in acknowledge(queue, [each])]
    return []


def _runs(handled: Sequence[Reserved]) -> dict[str, str]:
    """Return the neighbours that share a receipt, as arrays that the server reads."""
    runs: list[tuple[str, int, int]] = []
    for receipt, offset in sorted((each.receipt, each.unit.first_offset) for each in handled):
        if runs and runs[-1][0] == receipt and runs[-1][2] == offset - 1:
            runs[-1] = (receipt, runs[-1][1], offset)
        else:
            runs.append((receipt, offset, offset))
    columns = zip(("receipts", "firsts", "lasts"), zip(*runs, strict=True), strict=True)
    return {name: f"{{{','.join(map(str, values))}}}" for name, values in columns}


def fail(queue: Queue, reserved: Reserved, failure: Failure, verdict: Verdict) -> None:
    """Set an event aside after its call failed. Raises ReceiptError when it is no longer ours."""
    params = {
        **_one(reserved),
        **failure.params(queue.terms.worker),
        "state": "dead" if verdict.state == "dead" else "waiting",
        "retry_after_s": verdict.retry_after_s,
        "counted": failure.attempts > 0 and verdict.counted,
    }
    with _receipts():
        fetch_all(queue.conn, "queue", "fail_receipt", params)
    if verdict.state == "dead":
        tell_death(reserved.place.partition, reserved.unit.first_offset, params)


def give_back(queue: Queue, reserved: Reserved) -> None:
    """Make an event open again at once; the attempt does not count."""
    try:
        with _receipts():
            fetch_all(queue.conn, "queue", "release_receipt", _one(reserved))
    except ReceiptError:
        return  # another worker has it already


def extend(queue: Queue, receipt: str, visibility_s: float) -> bool:
    """Extend a receipt's reservation to visibility_s from now; False when it holds no event."""
    try:
        with _receipts():
            params = {"receipt": receipt, "visibility_s": visibility_s}
            fetch_all(queue.conn, "queue", "extend_receipt", params)
    except ReceiptError:
        return False
    return True


@contextmanager
def _receipts() -> Iterator[None]:
    """Raise ReceiptError for the database's error about a lost receipt."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate == _LOST:
            raise ReceiptError(one_line(error)) from error
        raise


def _one(reserved: Reserved) -> dict[str, object]:
    return {"receipt": reserved.receipt, "c_offset": reserved.unit.first_offset}
