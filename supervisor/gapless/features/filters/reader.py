"""The reader of groups with a filter, or with subscriptions (I5, I6, I7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection, errors

from gapless.consume.read.claim import (
    SEGMENT_COLUMNS,
    Claim,
    Seen,
    Wanted,
    before_hole,
    join,
    refuse,
    split,
)
from gapless.consume.unit import Source, Unit
from gapless.db.wire import fetch_all
from gapless.errors import BlockedError, HoleError
from gapless.features.filters.conditions import limited, with_conditions
from gapless.features.filters.filtered import FilteredSpan, FilteredUnit, Kept, kept_spans
from gapless.features.filters.matches import find_matches, matches_again
from gapless.keys import Assignment
from gapless.log.read import ROWS, in_order

KEPT_S_MAX = 20.0  # a claim looks at some ten thousand events; more is due to its jsonpath
SCAN_EVENTS_MAX = 10_000  # the number of events of the log that a claim looks at
_KEPT_COLUMNS = 15  # before those of an event in a row of claim_kept()


class FilteredReader:
    """A reader (consume/read/claim.py) that passes events, and reads nothing ahead."""

    __slots__ = ()

    def claim(self, conn: Connection[Any], assignment: Assignment, wanted: Wanted) -> Claim | None:
        """Claim `batch_size` kept events, or as much of the log as one claim looks at.

        None: the filter was removed or changed a moment ago. Raises as Reader.claim() does:
        ConditionError too, and BlockedError for a jsonpath that takes too long.
        """
        params = {
            **assignment.params,
            "batch_size": wanted.batch_size,
            "events_max": wanted.events_max,
            "place": wanted.place,
            "group_by": wanted.group_by,
            "scan_max": wanted.batch_size if wanted.exactly else SCAN_EVENTS_MAX,
        }
        with _bounded(conn, assignment):
            answer: list[Any] = fetch_all(conn, "consume", "claim_kept", params, form=ROWS)
        outcome, first, last, xid, place = answer[0][:5]
        if outcome in ("filtered", "unfiltered"):
            return None
        if outcome != "claimed":
            refuse(outcome, assignment, first, last)
            return Claim(outcome=outcome)
        segments = [row[:SEGMENT_COLUMNS] for row in answer if row[0] is not None]
        whole = split(first, *join(segments, last, last))
        ids, offsets, unasked, lost_id, matched, asks = answer[0][SEGMENT_COLUMNS:_KEPT_COLUMNS]
        with before_hole(whole):
            if lost_id is not None:
                raise HoleError(
                    f"event {lost_id} is missing from outbox_message_t: restore it, then the "
                    "partition continues",
                    missing_id=lost_id,
                )
            rows = None
            if len(ids) <= wanted.events_max and not asks:
                rows = in_order([row[_KEPT_COLUMNS:] for row in answer[len(segments) :]], ids)
        why = {offset: each for offset, each in zip(offsets, unasked or (), strict=False) if each}
        matches = None if matched is None else find_matches(conn, offsets, matched)
        kept = Kept(ids=ids, offsets=offsets, errors=why, matches=matches)
        if asks:
            kept = with_conditions(conn, assignment, whole, kept)
        return Claim(
            outcome="claimed",
            first_offset=first,
            last_offset=last,
            claim_xid=xid,
            spans=kept_spans(whole, kept),
            rows=rows,
            place=place,
        )

    def unit_again(self, conn: Connection[Any], source: Source, seen: Seen) -> Unit:
        """Return the kept events, with the matching subscriptions that still exist."""
        offsets, kept, rows, is_matched = seen
        matches = matches_again(conn, source.partition, offsets.start) if is_matched else None
        if len(kept) == len(offsets) and not matches:
            return Unit(source, offsets.start, rows, offsets)
        what = Kept(ids=kept, offsets=kept, matches=matches or None)
        return FilteredUnit(source, FilteredSpan(offsets.start, offsets, kept=what), rows)


@contextmanager
def _bounded(conn: Connection[Any], assignment: Assignment) -> Iterator[None]:
    """Limit the time of a jsonpath to KEPT_S_MAX. Raises BlockedError when that is not enough.

    It is raised, too, if the jsonpath needs more memory than a value may have. Then the transaction
    has ended.
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
