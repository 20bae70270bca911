"""Find the ids of offsets by the segments of the log, and tell loss from a standby's lag."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import GaplessError, HoleError
from gapless.features.spark.bulk import fetch_arrow, render
from gapless.features.spark.ranges import Range
from gapless.features.spark.shape import Slice
from gapless.features.spark.tries import CutError

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, Any]

log = logging.getLogger("gapless.spark")

REPLAY_S = 30.0  # a standby that is later than that counts as one that does not follow
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """The wanted columns and events of a task, and the treatment of missing events.

    where, params: as in a filter (log/filter.py). identity: the expected database (reach.py); None:
    any database.
    """

    dsn: str = field(repr=False)
    columns: tuple[str, ...]
    event_types: tuple[str, ...] | None = None
    where: str | None = None
    params: str = "{}"
    formats: Mapping[str, str] = field(default_factory=dict)
    fail_on_data_loss: bool = True
    identity: str | None = None

    @property
    def takes_all(self) -> bool:
        """Whether every event of a range is read."""
        return self.event_types is None and self.where is None


def find_ids(wanted: ReadRequest, ranges: Sequence[Range], is_last_word: bool) -> Slice:  # noqa: FBT001
    """Find the ids of the ranges' offsets. Raises HoleError for offsets without a segment."""
    import numpy as np

    params = {
        "topic_ids": [each.topic_id for each in ranges],
        "partition_ids": [each.partition_id for each in ranges],
        "first_offsets": [each.first_offset for each in ranges],
        "last_offsets": [each.last_offset for each in ranges],
    }
    segments = fetch_arrow(wanted.dsn, render(query("spark", "segments"), params), wanted.identity)
    numbers = segments["range_no"].to_numpy()
    bases = segments["base_offset"].to_numpy()
    lists = segments["message_ids"].combine_chunks()
    timelines = segments["timeline"].to_numpy()
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
        ranges=ranges,
        range_nos=range_nos[inside],
        offsets=offsets[inside],
        ids=ids[inside],
        timelines=np.repeat(timelines, lengths)[inside],
    )
    _check_segments(wanted, placed, is_last_word)
    return placed.as_stored()


def _check_segments(wanted: ReadRequest, placed: Slice, is_last_word: bool) -> None:  # noqa: FBT001
    """Compare the found offsets with the range, one by one: count = to - from, and none twice."""
    import numpy as np

    for number, each in enumerate(placed.ranges):
        part = slice(*np.searchsorted(placed.range_nos, [number, number + 1]))
        there = placed.offsets[part]
        _refuse_replaced(each, there, placed.timelines[part])
        if len(there) == each.events and np.array_equal(
            there, np.arange(each.first_offset, each.last_offset + 1)
        ):
            continue
        require_last_word(wanted, is_last_word)
        missing = np.setdiff1d(np.arange(each.first_offset, each.last_offset + 1), there)
        report_loss(wanted, each, missing, "log_segment")


def _refuse_replaced(each: Range, offsets: Ints, timelines: Ints) -> None:
    """Raise GaplessError for offsets that others have got since the read was planned."""
    if each.timeline is None or not (later := offsets[timelines > each.timeline]).size:
        return
    raise GaplessError(
        f"a failover has lost events of {each} since the read of them was planned: from "
        f"{later[0]} on the log has others; plan the read anew"
    )


def wait_for_replay(wanted: ReadRequest, ranges: Sequence[Range]) -> None:
    """Return when the server has the ends of the ranges, or is a primary: that has all there is.

    Raises GaplessError for a standby that does not get there within REPLAY_S.
    """
    params = {
        "topic_ids": [each.topic_id for each in ranges],
        "partition_ids": [each.partition_id for each in ranges],
        "last_offsets": [each.last_offset for each in ranges],
    }
    statement = render(query("spark", "not_replayed"), params)
    give_up_s = monotonic() + REPLAY_S
    while behind := fetch_arrow(wanted.dsn, statement, wanted.identity)["range_no"].to_pylist():
        if monotonic() > give_up_s:
            raise GaplessError(
                f"{ranges[behind[0] - 1]} is not on the standby {REPLAY_S:.0f} s after the read of "
                "it was planned: it lags behind the server of the driver, or follows another one"
            )
        sleep(_LOOK_S)


def require_last_word(wanted: ReadRequest, is_last_word: bool) -> None:  # noqa: FBT001
    """Raise CutError for a standby that may not have replayed what is missing."""
    if is_last_word:
        return
    answer = fetch_arrow(wanted.dsn, render(query("spark", "is_standby"), {}), wanted.identity)
    if answer["pg_is_in_recovery"][0].as_py():
        raise CutError("a standby has not replayed all of a range yet")


def report_loss(wanted: ReadRequest, each: Range, missing: Ints, table: str) -> None:
    """Raise HoleError for missing offsets of a range, or log them, as the request says."""
    problem = (
        f"{len(missing)} of {each.events} events of {each.topic}/{each.partition_id}, offsets "
        f"{each.first_offset} to {each.last_offset}, are missing from {table}, the first is "
        f"offset {missing[0] if len(missing) else each.first_offset}"
    )
    if wanted.fail_on_data_loss:
        raise HoleError(f"{problem}: restore them, or leave them out by failOnDataLoss=false")
    log.warning("%s: left out (failOnDataLoss=false)", problem)
