"""Claim the next range of a partition, in the transaction that is open (I5, I6, I7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from psycopg import Connection

from gapless.consume.unit import FIRST_TIMELINE, NOTHING, Source, Timelines, Unit, UnitRanges
from gapless.db.wire import fetch_all
from gapless.errors import BeyondError, GaplessError, HoleError, OverrunError, UnplacedError
from gapless.keys import Assignment
from gapless.log.event import Row
from gapless.log.read import ROWS, in_order
from gapless.settings.sections import GroupBy

SEGMENT_COLUMNS = 9  # of claim_at(); in a row of claim_events() they precede an event's


@dataclass(frozen=True, slots=True)
class Wanted:
    """The size of a claim: `batch_size` events, extended to the end of the last unit.

    events_max: at most N events are read in the claim's own round trip. group_by "user" merges
    neighbouring units of one user. read_ahead: the number of events to look for; `batch_size` of
    them are claimed. place: where the claim before left the group's row (Claim.place), a hint.
    exactly: these events are known; a reader that may pass others looks no further.
    """

    batch_size: int
    events_max: int = 0
    group_by: GroupBy = "transaction"
    read_ahead: int = 0
    place: str | None = None
    exactly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The result of a claim. `spans` are its units in offset order; empty unless claimed.

    rows: their events, if they were read with the claim, or ahead of it. beyond: the units after
    them, to be read ahead. place: where the claim left the group's row.
    """

    outcome: Literal["claimed", "idle", "fenced"]
    first_offset: int = 0
    last_offset: int = -1
    claim_xid: str = ""
    spans: UnitRanges = NOTHING
    rows: list[Row] | None = None
    beyond: UnitRanges = NOTHING
    place: str | None = None


class UnsettledError(GaplessError):
    """The next event cannot be claimed before settle() has committed something else."""

    def settle(self, conn: Connection[Any], assignment: Assignment) -> bool:
        """Commit it, in a transaction of its own; False when fenced."""
        raise NotImplementedError


class Seen(NamedTuple):
    """A handler's view of a unit that was set aside: those of its `offsets` that are in `kept`.

    rows: the kept events; None: they are read while the handler iterates. is_matched: some of them
    may have matched subscriptions.
    """

    offsets: range
    kept: Sequence[int]
    rows: list[Row] | None
    is_matched: bool


class Reader(Protocol):
    """A way to read a group's partition; the fence selects it at each claim (Backlog)."""

    def claim(self, conn: Connection[Any], assignment: Assignment, wanted: Wanted) -> Claim | None:
        """Claim the next events, in whole units; None: this group needs another reader.

        Before: a transaction is open. After: the group's offset row is locked, and past the range.
        Raises HoleError when segments or events of the range are missing, OverrunError when
        retention dropped its beginning, BeyondError or UnplacedError when the group has no place in
        the log, UnsettledError, and BlockedError for a problem that a person has to mend.
        """


class SelectiveReader(Reader, Protocol):
    """A reader that may pass events."""

    def unit_again(self, conn: Connection[Any], source: Source, seen: Seen, /) -> Unit:
        """Return a unit that was set aside, as its handler saw it."""


class LogReader:
    """The reader of groups that take every event."""

    __slots__ = ()

    def claim(self, conn: Connection[Any], assignment: Assignment, wanted: Wanted) -> Claim | None:
        """Claim as Reader.claim() says; None: the group has a filter."""
        params = {
            **assignment.params,
            "batch_size": wanted.batch_size,
            "group_by": wanted.group_by,
            "place": wanted.place,
        }
        name, more = "claim", {"read_ahead": wanted.read_ahead}
        if wanted.events_max:
            name, more = "claim_events", {"events_max": wanted.events_max}
        answer: list[Any] = fetch_all(conn, "consume", name, {**params, **more}, form=ROWS)
        segments = [row[:SEGMENT_COLUMNS] for row in answer if row[0] is not None]
        outcome, first, last, xid, place = segments[0][:5]
        if outcome == "filtered":
            return None
        if outcome != "claimed":
            refuse(outcome, assignment, first, last)
            return Claim(outcome=outcome)
        ids, marks, lines = join(segments, last, max(last, first + wanted.read_ahead - 1))
        events = last - first + 1
        spans = split(first, ids[:events], marks[:events], lines)
        rows: list[Row] | None = None
        if events <= wanted.events_max:
            with before_hole(spans):
                found = answer[len(segments) :]
                rows = in_order([row[SEGMENT_COLUMNS:] for row in found], spans.ids)
        whole = marks.rfind("1") + 1  # the events read ahead may end within a unit
        beyond = NOTHING
        if whole > events:
            beyond = split(last + 1, ids[events:whole], marks[events:whole], lines)
        return Claim(
            outcome="claimed",
            first_offset=first,
            last_offset=last,
            claim_xid=xid,
            spans=spans,
            rows=rows,
            beyond=beyond,
            place=place,
        )


def refuse(outcome: str, assignment: Assignment, first: int, last: int) -> None:
    """Raise the error that stops the group at its place."""
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
            f"{assignment.partition.group_id} handled them: gapless seek --earliest continues "
            "without them, and so does autoOffsetReset"
        )


def join(segments: list[Any], last: int, until: int) -> tuple[list[int], str, Timelines]:
    """Return the ids from the first offset claimed to `until`, and a mark for each: 1 ends a unit.

    The third value tells the timeline from each offset on. last: the last offset that is claimed. A
    hole before it is a HoleError, as is a claim that does not end with a unit; a hole behind it
    ends the ids.
    """
    ids: list[int] = []
    ends: list[str] = []
    lines: list[tuple[int, int]] = []
    first = segments[0][1]
    expected = segments[0][5]
    for *_, base, message_ids, unit_ends, line in segments:
        if base != expected:
            if expected > last:
                break  # the hole is not in our way yet
            whole = "".join(ends).rfind("1") + 1
            raise _hole(expected, base - 1, claimed_from=first, whole=whole)
        expected = base + len(message_ids)
        low, high = max(first - base, 0), until - base + 1
        ids += message_ids[low:high]
        ends.append(unit_ends[low:high])
        if not lines or lines[-1][1] != (line or 1):  # null in the database counts as 1
            lines.append((base if lines else 0, line or 1))
    marks = "".join(ends)
    _require_whole(ids, marks, first, last)
    return ids, marks, FIRST_TIMELINE if lines == [(0, 1)] else tuple(lines)


def _require_whole(ids: list[int], marks: str, first: int, last: int) -> None:
    """Raise HoleError unless the range is there, up to the end of a unit."""
    events = last - first + 1
    if len(ids) < events:
        raise HoleError(f"{len(ids)} ids for the offsets {first} to {last}", first_offset=first)
    if not marks.endswith("1", 0, events):
        raise HoleError(
            f"offset {last} ends no unit, and what comes behind it is missing from log_segment: "
            "restore it, then the partition continues",
            whole=marks.rfind("1", 0, events) + 1,
            first_offset=first,
        )


@contextmanager
def before_hole(spans: UnitRanges) -> Iterator[None]:
    """Add to a HoleError the number of events in whole units of the claim before the hole."""
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
        "restore them, then the partition continues",
        whole=whole,
        first_offset=claimed_from,
    )


def split(
    first_offset: int,
    ids: Sequence[int],
    unit_ends: str,
    timelines: Timelines = FIRST_TIMELINE,
) -> UnitRanges:
    """Cut a range into its units: `unit_ends` has a "1" for every event that ends one.

    The last event always ends one, since a claim is extended to the end of its last unit.
    """
    assert len(ids) == len(unit_ends)
    assert unit_ends.endswith("1")
    if "0" not in unit_ends:
        return UnitRanges(first_offset, ids, range(1, len(ids) + 1), timelines)
    ends = [end.end() for end in re.finditer("1", unit_ends)]
    return UnitRanges(first_offset, ids, ends, timelines)
