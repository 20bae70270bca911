"""Read ranges of the log as Arrow record batches, and prove that nothing is missing (I3).

A chunk is two queries: the segments, which give the ids of the offsets, and the events with these
ids. Ids are gathered here and looked up there; a join would let the planner scan the whole outbox.
Nothing is done row by row, and while Spark takes a batch a thread prepares the next one.

A read that the server cuts continues behind the last event that was yielded. A standby that lacks
the end of a range has not replayed it: that is waited for (segments.py), before anything counts as
lost.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import sql

from gapless.db.queries import query
from gapless.features.spark.ahead import ahead
from gapless.features.spark.bulk import render, stream_arrow
from gapless.features.spark.columns import fetched
from gapless.features.spark.ranges import Range, chunks
from gapless.features.spark.segments import (
    ReadRequest,
    find_ids,
    report_loss,
    require_last_word,
    wait_for_replay,
)
from gapless.features.spark.shape import Slice, shape
from gapless.features.spark.tries import CutError, Tries
from gapless.log.read import as_array

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Ints = np.ndarray[Any, Any]

T = TypeVar("T")

CHUNK_EVENTS_MAX = 100_000  # ids of one lookup
QUERY_EVENTS_MAX = 25_000
# Ids are read as one stretch if they are at least this part of those between lowest and highest.
DENSE = 0.5


def read_ranges(wanted: ReadRequest, ranges: Sequence[Range]) -> Generator[pa.RecordBatch]:
    """Yield the events of the ranges, each partition in the order of offsets; no empty batch.

    Raises HoleError when rows and range do not agree, unless fail_on_data_loss is off. Bound: three
    batches of bulk.BATCH_BYTES, or of one event if that is larger; more only for events that lie
    elsewhere in the table than their neighbours in the log. Raises GaplessError for a range that a
    standby does not replay in time, or that a failover has given to other events; CutError for a
    read that was cut again and again.
    """
    with closing(ahead(_batches(wanted, ranges))) as made:
        yield from made


def _batches(wanted: ReadRequest, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    for chunk in chunks(ranges, CHUNK_EVENTS_MAX):
        placed = _again(wanted, chunk, partial(find_ids, wanted, chunk))
        for first in range(0, len(placed.ids), QUERY_EVENTS_MAX):
            part = placed.part(slice(first, first + QUERY_EVENTS_MAX))
            if not wanted.takes_all or not wanted.fail_on_data_loss:
                part = _again(wanted, chunk, partial(_present, wanted, part))
            yield from _resumed(wanted, chunk, part)


def _tries(wanted: ReadRequest, ranges: Sequence[Range]) -> Tries:
    return Tries(partial(wait_for_replay, wanted, ranges))


def _again(wanted: ReadRequest, ranges: Sequence[Range], read: Callable[[bool], T]) -> T:
    """Return the result of a read, which is done again when it is cut.

    It is told whether its answer is the last word: see Tries.
    """
    tries = _tries(wanted, ranges)
    while True:
        try:
            return read(tries.is_last_word)
        except CutError as error:
            tries.again(error)


def _resumed(
    wanted: ReadRequest, ranges: Sequence[Range], placed: Slice
) -> Iterator[pa.RecordBatch]:
    """Yield the events of these places; a read that is cut continues behind the last of them."""
    tries = _tries(wanted, ranges)
    done = 0
    while True:
        try:
            for batch in _matched(wanted, placed.part(slice(done, None)), tries.is_last_word):
                done += batch.num_rows
                yield batch
                tries = _tries(wanted, ranges)
        except CutError as error:
            tries.again(error)
        else:
            return


def _present(wanted: ReadRequest, placed: Slice, is_last_word: bool) -> Slice:  # noqa: FBT001
    """Leave out events of other types, without a match, or lost; no payload is sent.

    Raises HoleError for an event that does not exist, unless fail_on_data_loss is off.
    """
    import numpy as np

    there = _ids(replace(wanted, columns=(), event_types=None, where=None), placed)
    lost = np.flatnonzero(~np.isin(placed.ids, there))
    if len(lost):
        require_last_word(wanted, is_last_word)
        _lost_events(wanted, placed, lost)
    if not wanted.takes_all:
        there = _ids(replace(wanted, columns=()), placed)
    return placed.part(np.isin(placed.ids, there))


def _ids(wanted: ReadRequest, placed: Slice) -> Ints:
    import numpy as np

    found = [batch["id"].to_numpy() for batch in _events(wanted, placed.ids)]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


def _events(wanted: ReadRequest, ids: Ints) -> Generator[pa.RecordBatch]:
    """Fetch the columns of these ids, in any order, perhaps with other ids between them."""
    low, high = int(ids.min()), int(ids.max())
    kinds = None if wanted.event_types is None else list(wanted.event_types)
    params: dict[str, object] = {"low": low, "high": high, "event_types": kinds}
    params |= {"where": wanted.where, "params": wanted.params}
    text = query("spark", "events_between")
    if len(ids) < (high - low + 1) * DENSE:
        text = query("spark", "events")
        params["ids"] = as_array(ids.tolist())
    names = sql.SQL(", ").join(sql.Identifier("o", name) for name in fetched(wanted.columns))
    _, _, tail = text.partition("\nfrom ")
    statement = sql.SQL("select {} from ").format(names) + render(tail, params)
    return stream_arrow(wanted.dsn, statement, wanted.identity)


def _matched(
    wanted: ReadRequest,
    placed: Slice,
    is_last_word: bool,  # noqa: FBT001
) -> Iterator[pa.RecordBatch]:
    """Yield the events of these places as they arrive, in the order of places.

    Raises HoleError for events that never arrive.
    """
    import numpy as np
    import pyarrow as pa

    if not len(placed.ids):
        return
    waiting: pa.Table | None = None
    done = 0
    with closing(_events(wanted, placed.ids)) as events:
        for batch in events:
            found = pa.Table.from_batches([batch])
            found = found if waiting is None else pa.concat_tables([waiting, found])
            left = placed.part(slice(done, done + found.num_rows))
            rows = _rows(left.ids, found)
            absent = np.flatnonzero(rows < 0)
            ready = int(absent[0]) if len(absent) else len(rows)
            if ready:
                yield _shaped(wanted, left.part(slice(ready)), rows[:ready], found)
            done += ready
            # Usually all of them are used: the table holds events in the order of the log.
            waiting = None
            if ready < found.num_rows:
                here = np.isin(found["id"].to_numpy(), placed.ids[done:])
                waiting = found.filter(pa.array(here))
    if done < len(placed.ids):
        require_last_word(wanted, is_last_word)
        yield from _rest(wanted, placed.part(slice(done, None)), waiting)


def _rest(wanted: ReadRequest, placed: Slice, waiting: pa.Table | None) -> Iterator[pa.RecordBatch]:
    """Report the events that have not arrived; yield the others if data loss is allowed."""
    import numpy as np

    rows = np.full(len(placed.ids), -1) if waiting is None else _rows(placed.ids, waiting)
    _lost_events(wanted, placed, np.flatnonzero(rows < 0))
    if waiting is not None and waiting.num_rows:
        yield _shaped(wanted, placed.part(rows >= 0), rows[rows >= 0], waiting)


def _rows(ids: Ints, found: pa.Table) -> Ints:
    """Return the row in `found` of each of these ids, -1 for no row."""
    import numpy as np

    there = found["id"].to_numpy()
    if not len(there):
        return np.full(len(ids), -1)
    if len(ids) <= len(there) and np.array_equal(ids, there[: len(ids)]):
        return np.arange(len(ids))
    by_id = np.argsort(there, kind="stable")
    at = np.searchsorted(there, ids, sorter=by_id)
    rows: Ints = by_id[np.minimum(at, len(there) - 1)]
    return np.where(there[rows] == ids, rows, -1)


def _shaped(wanted: ReadRequest, placed: Slice, rows: Ints, found: pa.Table) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    if np.array_equal(rows, np.arange(len(rows))):
        found = found.slice(0, len(rows))
    else:
        found = found.take(pa.array(rows))
    return shape(wanted.columns, placed, found, binary_value=wanted.binary_value)


def _lost_events(wanted: ReadRequest, placed: Slice, lost: Ints) -> None:
    """Raise an error, or log it, for each range that has lost events."""
    for number in sorted(set(placed.range_nos[lost].tolist())):
        of_range = lost[placed.range_nos[lost] == number]
        report_loss(wanted, placed.ranges[number], placed.offsets[of_range], "outbox_message_t")
