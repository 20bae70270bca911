"""Claim the next range of a partition, in the transaction that is open (I5, I6, I7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from psycopg import Connection, errors

from gapless.consume.unit import FIRST_TIMELINE, NOTHING, Spans, Timelines, split
from gapless.consume.user.check import GroupBy
from gapless.errors import BeyondError, BlockedError, HoleError, OverrunError, UnplacedError
from gapless.features.filters.conditions import limited, with_conditions
from gapless.features.filters.kept import Kept, kept_spans
from gapless.features.filters.matches import find_matches
from gapless.keys import Assignment
from gapless.log.event import Row
from gapless.log.read import fetch_rows, in_order

KEPT_S_MAX = 20.0  # a claim looks at some ten thousand events; what takes longer is its jsonpath
SCAN_EVENTS_MAX = 10_000  # of the log, that a claim of a group with a filter looks at
_SEGMENT_COLUMNS = 9  # of claim_at(), in front of an event's in what claim_events() returns
_KEPT_COLUMNS = 15  # in front of an event's in what claim_kept() returns


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much to claim: `batch_size` events, extended to the end of the last unit.

    events_max: at most N events are read in the claim's own round trip. group_by "user" merges
    neighbouring units of one user. read_ahead: so many events are looked for, `batch_size` of them
    claimed. place: where the claim before left the group's row (Claim.place); only a hint.
    filtered: the group is known to have a filter; then `batch_size` events are those that it keeps,
    of scan_max events of the log at most, and nothing is read ahead.
    """

    batch_size: int
    events_max: int = 0
    group_by: GroupBy = "transaction"
    read_ahead: int = 0
    place: str | None = None
    filtered: bool = False
    scan_max: int = SCAN_EVENTS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What was claimed. `spans` are its units in offset order; empty unless claimed.

    rows: their events, if they were read with the claim, or ahead of it. beyond: the units after
    them, to be read ahead. place: where the claim left the group's row. filtered: the group has a
    filter: `spans` are KeptSpans, rows what it keeps.
    """

    outcome: Literal["claimed", "idle", "fenced"]
    first_offset: int = 0
    last_offset: int = -1
    claim_xid: str = ""
    spans: Spans = NOTHING
    rows: list[Row] | None = None
    beyond: Spans = NOTHING
    place: str | None = None
    filtered: bool = False


def claim(conn: Connection[Any], assignment: Assignment, wanted: Wanted) -> Claim:
    """Claim the next range of whole units.

    Before: a transaction is open. After: the group's offset row is locked, and past the range.
    Raises HoleError when segments or events of the range are missing, OverrunError when retention
    dropped its beginning, BeyondError or UnplacedError when the group has no place in the log,
    ConditionError when subscriptions are to be stopped before anything is passed, BlockedError for
    a jsonpath that takes too long.
    """
    if wanted.filtered:
        return _claim_kept(conn, assignment, wanted)
    segments, found = _ask(conn, assignment, wanted)
    outcome, first, last, xid, place = segments[0][:5]
    if outcome == "filtered":
        return _claim_kept(conn, assignment, wanted)
    if outcome != "claimed":
        _refuse(outcome, assignment, first, last)
        return Claim(outcome=outcome)
    ids, marks, lines = _join(segments, last, max(last, first + wanted.read_ahead - 1))
    events = last - first + 1
    spans = split(first, ids[:events], marks[:events], lines)
    rows: list[Row] | None = None
    if events <= wanted.events_max:
        with before_hole(spans):
            rows = in_order(found, spans.ids)
    whole = marks.rfind("1") + 1  # what lies ahead may end amid a unit
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


def _claim_kept(conn: Connection[Any], assignment: Assignment, wanted: Wanted) -> Claim:
    """Claim for a group with a filter, as claim() does."""
    params = {
        **assignment.params,
        "batch_size": wanted.batch_size,
        "events_max": wanted.events_max,
        "place": wanted.place,
        "group_by": wanted.group_by,
        "scan_max": wanted.scan_max,
    }
    with _bounded(conn, assignment):
        answer: list[Any] = fetch_rows(conn, "consume", "claim_kept", params)
    outcome, first, last, xid, place = answer[0][:5]
    if outcome in ("filtered", "unfiltered"):  # changed this moment, or since it was last asked
        return claim(conn, assignment, replace(wanted, filtered=False))
    if outcome != "claimed":
        _refuse(outcome, assignment, first, last)
        return Claim(outcome=outcome, filtered=True)
    segments = [row[:_SEGMENT_COLUMNS] for row in answer if row[0] is not None]
    ids, marks, lines = _join(segments, last, last)
    kept_ids, offsets, errors, lost_id, matched, asks = answer[0][_SEGMENT_COLUMNS:_KEPT_COLUMNS]
    whole = split(first, ids, marks, lines)
    if lost_id is not None:
        with before_hole(whole):
            raise HoleError(
                f"event {lost_id} is missing from outbox_message_t: restore it, then the "
                "partition continues",
                missing_id=lost_id,
            )
    why = {offset: each for offset, each in zip(offsets, errors or (), strict=False) if each}
    matches = None if matched is None else find_matches(conn, offsets, matched)
    kept = Kept(ids=kept_ids, offsets=offsets, errors=why, matches=matches)
    if asks:
        kept = with_conditions(conn, assignment, whole, kept)
    spans = kept_spans(whole, kept)
    rows: list[Row] | None = None
    if len(kept_ids) <= wanted.events_max and not asks:
        with before_hole(whole):
            rows = in_order([row[_KEPT_COLUMNS:] for row in answer[len(segments) :]], kept_ids)
    return Claim(
        outcome="claimed",
        first_offset=first,
        last_offset=last,
        claim_xid=xid,
        spans=spans,
        rows=rows,
        place=place,
        filtered=True,
    )


@contextmanager
def _bounded(conn: Connection[Any], assignment: Assignment) -> Iterator[None]:
    """Let a jsonpath be asked for KEPT_S_MAX. Raises BlockedError when it was not enough.

    Also when it took all memory that a value may have. The transaction is at its end then.
    """
    try:
        with limited(conn, KEPT_S_MAX):
            yield
    except (errors.QueryCanceled, errors.InternalError_, errors.ProgramLimitExceeded) as error:
        why = error.diag.message_primary
        raise BlockedError(
            str(assignment.partition),
            f"a jsonpath of its filter or subscriptions takes longer than {KEPT_S_MAX:g} s, or too "
            f"much memory ({why}): give it another (gapless groups filter, gapless subscriptions)",
        ) from error


def _refuse(outcome: str, assignment: Assignment, first: int, last: int) -> None:
    """Raise what keeps the group from continuing where it is."""
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


def _ask(
    conn: Connection[Any], assignment: Assignment, wanted: Wanted
) -> tuple[list[Any], list[Row]]:
    """Claim in the database; return the segments, or why there are none, and the events."""
    params = {
        **assignment.params,
        "batch_size": wanted.batch_size,
        "group_by": wanted.group_by,
        "place": wanted.place,
    }
    if not wanted.events_max:
        return fetch_rows(conn, "consume", "claim", {**params, "read_ahead": wanted.read_ahead}), []
    answer: list[Any] = fetch_rows(
        conn, "consume", "claim_events", {**params, "events_max": wanted.events_max}
    )
    segments = [row[:_SEGMENT_COLUMNS] for row in answer if row[0] is not None]
    return segments, [row[_SEGMENT_COLUMNS:] for row in answer[len(segments) :]]


def _join(segments: list[Any], last: int, until: int) -> tuple[list[int], str, Timelines]:
    """Return the ids from the first offset claimed to `until`, a mark for each: 1 ends a unit.

    And from which offset on which timeline gave them. last: the last offset that is claimed; a hole
    before it is a HoleError, one behind it the end. So is a claim that does not end with a unit.
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
        "restore them, then the partition continues",
        whole=whole,
        first_offset=claimed_from,
    )
