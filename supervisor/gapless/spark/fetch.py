"""Read ranges of the log as Arrow record batches, and prove that nothing is missing (I3).

A slice is two queries: the segments, which say which ids the offsets have, and the events by these
ids. Ids are gathered here and looked up there; a join would let the planner scan the whole outbox.
Nothing is done row by row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from gapless.db.queries import query
from gapless.errors import HoleError
from gapless.spark.bulk import fetch_arrow, render
from gapless.spark.columns import fetched
from gapless.spark.ranges import Range, slices
from gapless.spark.shape import Slice, shape

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

log = logging.getLogger("gapless.spark")

SLICE_EVENTS_FIRST = 2_000
SLICE_EVENTS_MAX = 20_000
SLICE_BYTES = 8 << 20  # what a slice should have; the next one is made smaller or larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a task reads of each event, and what it does about events that are not there."""

    dsn: str
    columns: tuple[str, ...]
    event_types: tuple[str, ...] | None = None
    binary_value: bool = False
    fail_on_data_loss: bool = True


def read_ranges(wanted: Wanted, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """Yield the events of the ranges, in the order of ranges and offsets; never an empty batch.

    Raises HoleError when rows and range do not agree, unless fail_on_data_loss is off.
    Bound: a slice is in memory at a time, about SLICE_BYTES unless events suddenly grow.
    """
    events = min(SLICE_EVENTS_FIRST, SLICE_EVENTS_MAX)
    rest = list(ranges)
    while rest:
        now, *later = slices(rest, events)
        batch, size = _read(wanted, now)
        if batch is not None and batch.num_rows:
            yield batch
        rest = [each for one in later for each in one]
        taken = sum(each.events for each in now)
        events = min(SLICE_EVENTS_MAX, max(1, SLICE_BYTES * taken // max(size, 1)), events * 4)


def _read(wanted: Wanted, ranges: Sequence[Range]) -> tuple[pa.RecordBatch | None, int]:
    placed = _place(wanted, ranges)
    if not len(placed.ids):
        return None, 0
    found = _events(wanted, placed.ids)
    order = _order(wanted, placed, found)
    made = shape(wanted.columns, placed, order, found, binary_value=wanted.binary_value)
    return made, found.nbytes


def _place(wanted: Wanted, ranges: Sequence[Range]) -> Slice:
    """Find the ids of the ranges' offsets. Raises HoleError for offsets that no segment has."""
    import numpy as np  # noqa: PLC0415 - only where tasks run

    params = {
        "topic_ids": [each.topic_id for each in ranges],
        "partition_ids": [each.partition_id for each in ranges],
        "first_offsets": [each.first_offset for each in ranges],
        "last_offsets": [each.last_offset for each in ranges],
    }
    segments = fetch_arrow(wanted.dsn, render(query("spark", "segments"), params))
    numbers = segments["range_no"].to_numpy()
    bases = segments["base_offset"].to_numpy()
    lists = segments["message_ids"].combine_chunks()
    ids = lists.flatten().to_numpy()
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    starts = np.cumsum(lengths) - lengths
    # The n-th id (from 0) of a segment has offset base_offset + n.
    offsets = np.repeat(bases - starts, lengths) + np.arange(len(ids))
    range_nos = np.repeat(numbers, lengths) - 1
    firsts = np.array([each.first_offset for each in ranges], dtype=np.int64)
    lasts = np.array([each.last_offset for each in ranges], dtype=np.int64)
    inside = (offsets >= firsts[range_nos]) & (offsets <= lasts[range_nos])
    placed = Slice(
        ranges=ranges, range_nos=range_nos[inside], offsets=offsets[inside], ids=ids[inside]
    )
    _check_segments(wanted, placed)
    return placed


def _check_segments(wanted: Wanted, placed: Slice) -> None:
    """Compare the offsets found with the range, one by one: count = to - from, and none twice."""
    import numpy as np  # noqa: PLC0415 - only where tasks run

    for number, each in enumerate(placed.ranges):
        there = placed.offsets[placed.range_nos == number]
        if len(there) == each.events and np.array_equal(
            there, np.arange(each.first_offset, each.last_offset + 1)
        ):
            continue
        missing = np.setdiff1d(np.arange(each.first_offset, each.last_offset + 1), there)
        _lost(wanted, each, missing, "log_segment")


def _events(wanted: Wanted, ids: np.ndarray[Any, Any]) -> pa.Table:
    """Fetch the columns of these ids, in any order."""
    params: dict[str, object] = {
        "low": int(ids.min()),
        "high": int(ids.max()),
        "ids": _as_array(ids),
    }
    names = sql.SQL(", ").join(sql.Identifier("o", name) for name in fetched(wanted.columns))
    text = query("spark", "events")
    if wanted.event_types is not None:
        text = query("spark", "events_of_types")
        params["event_types"] = list(wanted.event_types)
    _, _, tail = text.partition("\nfrom ")
    return fetch_arrow(wanted.dsn, sql.SQL("select {} from ").format(names) + render(tail, params))


def _order(wanted: Wanted, placed: Slice, found: pa.Table) -> np.ndarray[Any, Any] | None:
    """Return where in `found` the row of each place is, -1 for none; None: they agree as they are.

    Raises HoleError when an event is missing that was not filtered out.
    """
    import numpy as np  # noqa: PLC0415 - only where tasks run

    there = found["id"].to_numpy()
    if len(there) == len(placed.ids) and np.array_equal(there, placed.ids):
        return None  # nearly always: an index look-up yields ascending ids, and so does a run
    by_id = np.argsort(there, kind="stable")
    at = np.searchsorted(there, placed.ids, sorter=by_id)
    row: np.ndarray[Any, Any] = by_id[np.minimum(at, len(there) - 1)] if len(there) else at * 0 - 1
    if len(there):
        row = np.where(there[row] == placed.ids, row, -1)
    absent = row < 0
    if absent.any():
        _check_absent(wanted, placed, absent)
    return row


def _check_absent(wanted: Wanted, placed: Slice, absent: np.ndarray[Any, Any]) -> None:
    """See to it that what is absent was filtered out: then it exists all the same."""
    import numpy as np  # noqa: PLC0415 - only where tasks run

    missing = np.flatnonzero(absent)
    if wanted.event_types is not None:
        only_ids = Wanted(dsn=wanted.dsn, columns=())
        exist = _events(only_ids, placed.ids[missing])["id"].to_numpy()
        missing = missing[~np.isin(placed.ids[missing], exist)]
    if len(missing):
        number = placed.range_nos[missing[0]]
        of_range = missing[placed.range_nos[missing] == number]
        _lost(wanted, placed.ranges[number], placed.offsets[of_range], "outbox_message_t")


def _lost(wanted: Wanted, each: Range, missing: np.ndarray[Any, Any], table: str) -> None:
    problem = (
        f"{len(missing)} of {each.events} events of {each.topic}/{each.partition_id}, offsets "
        f"{each.first_offset} to {each.last_offset}, are missing from {table}, the first is "
        f"offset {missing[0] if len(missing) else each.first_offset}"
    )
    if wanted.fail_on_data_loss:
        raise HoleError(f"{problem}: restore them, or go on without them by failOnDataLoss=false")
    log.warning("%s: going on without them (failOnDataLoss=false)", problem)


def _as_array(ids: np.ndarray[Any, Any]) -> str:
    """Return an array as the server reads it."""
    return f"{{{','.join(map(str, ids.tolist()))}}}"
