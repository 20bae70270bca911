"""Claim the next range of a partition, in the transaction that is open (I5, I6, I7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from psycopg import Connection

from gapless.consume.handler import GroupBy
from gapless.consume.prefetch import NOTHING, Prefetch
from gapless.consume.session import run, transaction
from gapless.consume.unit import FIRST_TIMELINE, Spans, Timelines, Unit, split
from gapless.errors import BeyondError, HoleError, OverrunError, UnplacedError
from gapless.keys import Assignment
from gapless.log.event import Row
from gapless.log.read import fetch_rows, in_order

_SEGMENT_COLUMNS = 9  # of claim_at(), in front of an event's in what claim_events() returns

Made = tuple[Spans, Iterator[Unit]]
Make = Callable[[Spans, list[Row]], Made]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much to claim: `batch_size` events, extended to the end of the last unit.

    events_max: at most N events are read in the claim's own round trip, unless what is read ahead
    says that more is worth reading at once. group_by "user" merges neighbouring units of one user.
    """

    batch_size: int
    events_max: int = 0
    group_by: GroupBy = "transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What was claimed. `spans` are its units in offset order; empty unless claimed.

    rows: their events, if they were read with the claim, or ahead of it. beyond: the units after
    them, to be read ahead. made: what was made of them meanwhile.
    """

    outcome: Literal["claimed", "idle", "fenced"]
    first_offset: int = 0
    last_offset: int = -1
    claim_xid: str = ""
    spans: Spans = NOTHING
    rows: list[Row] | None = None
    beyond: Spans = NOTHING
    made: Made | None = None


def claim(
    conn: Connection[Any],
    assignment: Assignment,
    wanted: Wanted,
    ahead: Prefetch | None = None,
    make: Make | None = None,
) -> Claim:
    """Claim the next range of whole units.

    make: called with what was read ahead, while the database is asked whether it is ours; it MUST
    NOT use the connection.
    Before: a transaction is open. After: the group's offset row is locked, and past the range.
    Raises HoleError when segments or events of the range are missing, OverrunError when retention
    dropped its beginning, BeyondError or UnplacedError when the group has no place in the log.
    """
    ahead = ahead or Prefetch()
    return claim_ahead(conn, assignment, wanted.batch_size, ahead, make) or _claim(
        conn, assignment, wanted, ahead
    )


def claim_ahead(
    conn: Connection[Any],
    assignment: Assignment,
    batch_size: int,
    ahead: Prefetch,
    make: Make | None = None,
) -> Claim | None:
    """Claim units that were read ahead; None unless there are any, and they are what comes next.

    Before and after: as for claim(). Without units the database is not asked.
    """
    spans, events = ahead.take(batch_size)
    if not spans:
        return None
    made: Made | None = None

    def meanwhile() -> None:
        nonlocal made
        made = make(spans, events) if make else None

    first, last = spans.first_offset, spans.first_offset + len(spans.ids) - 1
    params = {"first_offset": first, "last_offset": last, "place": ahead.place}
    rows = run(conn, "claim_ahead", {**assignment.params, **params}, meanwhile=meanwhile)
    if not rows:
        ahead.forget()
        return None
    xid, ahead.place = rows[0]
    return Claim(
        outcome="claimed",
        first_offset=first,
        last_offset=last,
        claim_xid=xid,
        spans=spans,
        rows=events,
        made=made,
    )


def _claim(conn: Connection[Any], assignment: Assignment, wanted: Wanted, ahead: Prefetch) -> Claim:
    most = 0 if ahead.events else wanted.events_max
    segments, found = _ask(conn, assignment, wanted, ahead, most)
    outcome, first, last, xid, place = segments[0][:5]
    _refuse(outcome, assignment, first, last)
    if outcome != "claimed":
        return Claim(outcome=outcome)
    ahead.place = place
    ids, marks = _join(segments, last, max(last, first + ahead.events - 1))
    lines = _timelines(segments)
    events = last - first + 1
    _require_whole(ids, marks, first, last)
    whole = marks.rfind("1") + 1  # what lies ahead may end amid a unit
    beyond = (
        split(last + 1, ids[events:whole], marks[events:whole], lines)
        if whole > events
        else NOTHING
    )
    spans = split(first, ids[:events], marks[:events], lines)
    rows: list[Row] | None = None
    if events <= most:
        with before_hole(spans):
            rows = in_order(found, spans.ids)
        ahead.gauge(rows, wanted.batch_size, most)
    return Claim(
        outcome="claimed",
        first_offset=first,
        last_offset=last,
        claim_xid=xid,
        spans=spans,
        rows=rows,
        beyond=beyond,
    )


def _refuse(outcome: str, assignment: Assignment, first: int, last: int) -> None:
    """Raise what keeps the group from going on where it is."""
    if outcome == "hole":
        raise _hole(first, last, claimed_from=first)
    if outcome == "unplaced":
        raise UnplacedError(str(assignment.partition))
    if outcome == "beyond":
        raise BeyondError(
            f"the group is at offset {first}, beyond the end of the log, where the next event had "
            f"offset {last}: gapless seek {assignment.partition}@{last} --pause --yes",
            log_end=last,
        )
    if outcome == "overrun":
        raise OverrunError(
            f"retention dropped offsets {first} to {last} before group "
            f"{assignment.partition.group_id} handled them: gapless seek --earliest goes on "
            "without them, and so does autoOffsetReset"
        )


def _ask(
    conn: Connection[Any], assignment: Assignment, wanted: Wanted, ahead: Prefetch, events_max: int
) -> tuple[list[Any], list[Row]]:
    """Claim in the database; return the segments, or why there are none, and the events."""
    params = {
        **assignment.params,
        "batch_size": wanted.batch_size,
        "group_by": wanted.group_by,
        "place": ahead.place,
    }
    if not events_max:
        return fetch_rows(conn, "consume", "claim", {**params, "read_ahead": ahead.events}), []
    answer: list[Any] = fetch_rows(
        conn, "consume", "claim_events", {**params, "events_max": events_max}
    )
    segments = [row[:_SEGMENT_COLUMNS] for row in answer if row[0] is not None]
    return segments, [row[_SEGMENT_COLUMNS:] for row in answer[len(segments) :]]


def _join(segments: list[Any], last: int, until: int) -> tuple[list[int], str]:
    """Return the ids from the first offset claimed to `until`, and a mark for each: 1 ends a unit.

    last: the last that is claimed; a hole before it is a HoleError, one behind it the end.
    """
    ids: list[int] = []
    ends: list[str] = []
    first = segments[0][1]
    expected = segments[0][5]
    for *_, base, message_ids, unit_ends, _ in segments:
        if base != expected:
            if expected > last:
                break  # the hole is not in our way yet
            whole = "".join(ends).rfind("1") + 1
            raise _hole(expected, base - 1, claimed_from=first, whole=whole)
        expected = base + len(message_ids)
        low, high = max(first - base, 0), until - base + 1
        ids += message_ids[low:high]
        ends.append(unit_ends[low:high])
    return ids, "".join(ends)


def _require_whole(ids: list[int], marks: str, first: int, last: int) -> None:
    """Raise HoleError unless the range is there, up to the end of a unit."""
    events = last - first + 1
    if len(ids) < events:
        raise HoleError(f"{len(ids)} ids for the offsets {first} to {last}", first_offset=first)
    if not marks.endswith("1", 0, events):
        raise HoleError(
            f"offset {last} ends no unit, and what comes behind it is missing from log_segment: "
            "restore it, then the partition goes on",
            whole=marks.rfind("1", 0, events) + 1,
            first_offset=first,
        )


def _timelines(segments: list[Any]) -> Timelines:
    """Return from which offset on which timeline gave them; null in the database counts as 1."""
    lines = [(0, segments[0][8] or 1)]
    for *_, base, _, _, line in segments[1:]:
        if (line or 1) != lines[-1][1]:
            lines.append((base, line or 1))
    return FIRST_TIMELINE if lines == [(0, 1)] else tuple(lines)


def record_attempt(conn: Connection[Any], assignment: Assignment) -> int | None:
    """Write down, in a transaction of its own, that the next unit is about to be tried.

    Returns how often it was tried, this time included; None when fenced.
    """
    with transaction(conn):
        (attempts,) = run(conn, "record_attempt", assignment.params)[0]
    return None if attempts is None else int(attempts)


def forget_attempt(conn: Connection[Any], assignment: Assignment) -> None:
    """Take the last attempt back: it ended with an error, not with the worker's death."""
    with transaction(conn):
        run(conn, "forget_attempt", assignment.params)


def stop_beyond(conn: Connection[Any], assignment: Assignment, log_end: int) -> None:
    """Let the group stay where it is, beyond the end, until somebody says where it goes on."""
    with transaction(conn):
        run(conn, "stop_beyond", {**assignment.params, "log_end": log_end})


def skip_overrun(conn: Connection[Any], assignment: Assignment, to_end: str) -> int | None:
    """Leave behind what retention dropped; return how many offsets, None when fenced.

    to_end: earliest or latest.
    """
    with transaction(conn):
        (lost,) = run(conn, "skip_overrun", {**assignment.params, "to_end": to_end})[0]
    return None if lost is None else int(lost)


@contextmanager
def before_hole(spans: Spans) -> Iterator[None]:
    """Let a HoleError within say how many events of whole units of the claim stand before it."""
    try:
        yield
    except HoleError as error:
        error.first_offset = spans.first_offset
        if error.missing_id in spans.ids:
            at = spans.ids.index(error.missing_id)
            error.whole = max((end for end in spans.ends if end <= at), default=0)
        raise


def _hole(first: int, last: int, *, claimed_from: int, whole: int = 0) -> HoleError:
    return HoleError(
        f"offsets {first} to {last} are missing from log_segment: "
        "restore them, then the partition goes on",
        whole=whole,
        first_offset=claimed_from,
    )
