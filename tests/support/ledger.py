"""The effects of the handlers, as a history to check: a table without constraints."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from psycopg import Connection
from psycopg.rows import class_row

MAKE = """
create table ledger (
  id bigint generated always as identity,
  group_id text, topic text, partition_id int, c_offset bigint, epoch bigint, pid int,
  xid xid8 default pg_current_xact_id(),
  at double precision default extract(epoch from clock_timestamp())
);
create table called (
  id bigint generated always as identity,
  partition_id int, c_offset bigint, idempotency_key text, attempt int,
  began timestamptz default clock_timestamp(), ended timestamptz
)
"""
_ENTRIES = """
select id, partition_id, c_offset, epoch, pid, xid::text, at from ledger
where group_id = %s and topic = %s order by partition_id, id
"""
_DEAD = """
select d.partition_id, d.c_offset from gapless.dead_letter_queue d
join gapless.topic t using (topic_id) where d.group_id = %s and t.name = %s
"""
_GIVEN_UP = """
select (was).partition_id, max(extract(epoch from at))::float8 from lease_history.lease
where (was).owner is not null and (now).owner is null group by 1
"""
_LOG = """
select s.partition_id, o from gapless.log_segment s
join gapless.topic t using (topic_id), generate_series(s.base_offset, s.last_offset) o
where t.name = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An event that was handled; `at` is the server's clock in seconds."""

    id: int
    partition_id: int
    c_offset: int
    epoch: int
    pid: int
    xid: str
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A change of process on a partition, with the time in which no event was handled."""

    partition_id: int
    from_pid: int
    to_pid: int
    pause_s: float
    at: float


def entries(conn: Connection, group: str = "g", topic: str = "t") -> dict[int, list[Entry]]:
    """Return the handled events of each partition, in the order in which they were written."""
    with conn.cursor(row_factory=class_row(Entry)) as cursor:
        rows = cursor.execute(_ENTRIES, [group, topic]).fetchall()
    return {p: list(run) for p, run in groupby(rows, key=lambda row: row.partition_id)}


def handovers(history: dict[int, list[Entry]]) -> Iterator[Handover]:
    """Yield the changes of process of each partition."""
    for partition_id, run in history.items():
        for one, next_ in pairwise(run):
            if one.pid != next_.pid:
                yield Handover(
                    partition_id=partition_id,
                    from_pid=one.pid,
                    to_pid=next_.pid,
                    pause_s=next_.at - one.at,
                    at=next_.at,
                )


def assert_make_before_break(conn: Connection, moved: Sequence[Handover]) -> None:
    """Check that each partition was given up only after its next process existed.

    There is no bound in time: benchmarks measure hand-overs, and a busy machine proves nothing.
    """
    given_up = dict(conn.execute(_GIVEN_UP).fetchall())
    for move in moved:
        started = _started(move.to_pid)
        assert started < given_up[move.partition_id], f"{move}: it was forked afterwards"


def _started(pid: int) -> float:
    """Return when a process was started, in seconds of the server's clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_REALTIME) - age_s


def dead(conn: Connection, group: str = "g", topic: str = "t") -> set[tuple[int, int]]:
    """Return (partition, offset) of the dead letters."""
    return set(conn.execute(_DEAD, [group, topic]).fetchall())


def assert_exactly_once(
    conn: Connection,
    group: str = "g",
    topic: str = "t",
    *,
    dead_offsets: set[tuple[int, int]] | None = None,
) -> None:
    """I1, I6, I7, I9: every event handled once or dead, in order, by owners of rising epochs.

    dead_offsets: exactly these are in the dead letter queue; none by default.
    """
    assert dead(conn, group, topic) == (dead_offsets or set())
    history = entries(conn, group, topic)
    assert_all_once(conn, group, topic)
    for partition_id, run in history.items():
        offsets = [entry.c_offset for entry in run]
        assert offsets == sorted(offsets), f"partition {partition_id} out of order"


def assert_all_once(conn: Connection, group: str = "g", topic: str = "t") -> None:
    """Check as assert_exactly_once(), except for the order: units set aside are handled later."""
    log = set(conn.execute(_LOG, [topic]).fetchall())
    letters = dead(conn, group, topic)
    history = entries(conn, group, topic)
    handled = [(p, e.c_offset) for p, run in history.items() for e in run]
    twice = (
        sorted({place for place in handled if handled.count(place) > 1})
        if len(handled) != len(set(handled))
        else []
    )
    assert not twice, f"handled twice: {twice}"
    assert not letters & set(handled), "both handled and dead"
    assert set(handled) | letters == log, f"never handled: {sorted(log - set(handled) - letters)}"
    for partition_id, run in history.items():
        epochs = [entry.epoch for entry in run]
        assert epochs == sorted(epochs), f"partition {partition_id}: an older owner came late"
        owners = {(entry.epoch, entry.pid) for entry in run}
        assert len(owners) == len(set(epochs)), f"partition {partition_id}: an epoch of two owners"
