"""Run a replay to its end: partition by partition, through the real step, in this process.

A scratch group has no members. Each process of a replay holds a partition's advisory lock and
installs its own fence, as a worker does. So several may run one replay side by side, and one that
was killed and wakes up late cannot commit (I6, I7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import tenacity

from gapless.consume.job import Job
from gapless.consume.step import step, step_alone
from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.db.connect import is_transient
from gapless.db.queries import query
from gapless.errors import FencedError, GaplessError
from gapless.features.filters.stored import set_filter
from gapless.features.replay.plan import singly
from gapless.keys import Assignment, Partition
from gapless.lease import hold
from gapless.logs import owns
from gapless.ops.rows import require_autocommit, row, rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["ReplayProgress", "ReplayResult", "replay_progress", "run_replay"]

_RETRIES_S_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPart:
    """A partition of a replay; stop_offset is exclusive."""

    topic: str
    topic_id: int
    partition_id: int
    lease_no: int
    next_offset: int
    stop_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProgress:
    """The progress of a replay over all partitions: events in range, done events, dead units."""

    events: int
    done: int
    dead_units: int
    dead_events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """The result of a replay, all its runs together; done counts events.

    finished: nothing is left of its range. kept: its scratch group is still there, for other runs
    or for its dead letters.
    """

    name: str
    events: int
    done: int
    dead_units: int
    dead_events: int
    finished: bool
    kept: bool


def replay_progress(conn: Connection[Any], name: str) -> ReplayProgress:
    """Return the progress of a replay. Raises GaplessError when it was removed."""
    found = rows(conn, ReplayProgress, query("replay", "replay_state"), group=name)
    if not found:
        raise GaplessError(f"replay {name} is not there any more: somebody removed it")
    return found[0]


def run_replay(
    conn: Connection[Any],
    name: str,
    handler: Handler,
    terms: Terms,
    *,
    keep: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> ReplayResult:
    """Handle the rest of a replay, in the partitions that no other session is at.

    Before: `conn` is in autocommit. terms: of replay_terms(); other events than those of their
    filter are passed over. progress: is called after each claim with its number of events of the
    log. The scratch group is forgotten when all is done and nothing is dead, unless it is to be
    kept. Close the session after an error: it may still hold a partition; a run with the same name
    continues. Raises GaplessError when the replay was removed, is paused, or waits for events
    outside of its range; FencedError when another session took a partition over.
    """
    require_autocommit(conn, "run_replay()")
    if terms.filter is not None:
        set_filter(conn, name, terms.topic, terms.filter)
    row(conn, query("replay", "replay_for"), group=name, topic=terms.topic, of=terms.group_id)
    _run_all(conn, name, singly(handler), terms, progress)
    end = replay_progress(conn, name)
    is_done = not _parts(conn, name)
    is_kept = not is_done or end.dead_units > 0 or keep
    if not is_kept:
        row(conn, query("control", "drop_group"), group=name)
    return ReplayResult(
        name=name,
        events=end.events,
        done=end.done,
        dead_units=end.dead_units,
        dead_events=end.dead_events,
        finished=is_done,
        kept=is_kept,
    )


def _parts(conn: Connection[Any], name: str) -> list[ReplayPart]:
    """Return the unfinished partitions."""
    return rows(conn, ReplayPart, query("replay", "replay_parts"), group=name)


def _run_all(
    conn: Connection[Any],
    name: str,
    handler: Handler,
    terms: Terms,
    progress: Callable[[int], None],
) -> None:
    """Repeat while any partition moves: they wait for one another after a change of number."""
    moved, waiting = True, list[ReplayPart]()
    while moved:
        moved, waiting = False, []
        for part in _parts(conn, name):
            if not hold.try_lock(conn, part.lease_no):
                continue
            waiting.append(part)
            for events in _partition(conn, name, part, handler, terms):
                moved = True
                progress(events)
    left = {part.partition_id for part in _parts(conn, name)}
    if left.intersection(part.partition_id for part in waiting):
        raise GaplessError(
            f"replay {name} is paused (gapless resume {name}, then --continue), or its "
            "range leaves out what comes before it, in other partitions that the topic had"
        )


def _partition(
    conn: Connection[Any], name: str, part: ReplayPart, handler: Handler, terms: Terms
) -> Iterator[int]:
    partition = Partition(
        group_id=name,
        topic=part.topic,
        topic_id=part.topic_id,
        partition_id=part.partition_id,
        is_replay=True,
    )
    token = uuid4()
    where = {"group": name, "topic_id": part.topic_id, "partition_id": part.partition_id}
    epoch, unclean = row(conn, query("replay", "take_part"), **where, token=token)
    if epoch is None:
        raise GaplessError(f"replay {name} is not there any more: somebody removed it")
    assignment = Assignment(partition=partition, epoch=epoch, token=token)
    # Another session may have been at it between our look and the lock.
    left = [each for each in _parts(conn, name) if each.partition_id == part.partition_id]
    at = left[0].next_offset if left else part.stop_offset
    owns(assignment)
    turn = Job(conn=conn, assignment=assignment, handler=handler, terms=terms)
    alone = terms.batch_size if unclean else 0  # its last run may have died of one of these (I8)
    while at < part.stop_offset:
        size = min(terms.batch_size, part.stop_offset - at)
        begin = partial(step_alone, turn) if alone > 0 else partial(step, turn, batch_size=size)
        done = patiently(begin)
        if done.outcome == "fenced":
            raise FencedError(f"replay {name}: another worker took over partition {partition}")
        if done.outcome == "idle":
            break
        events = done.next_offset - at
        alone -= events
        at = done.next_offset
        yield events
    hold.release(conn, assignment, part.lease_no)


def patiently(turn: Callable[[], Any]) -> Any:
    """Repeat a turn while its failures are transient; a lost session ends the replay."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_passing),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=5),
        stop=tenacity.stop_after_delay(_RETRIES_S_MAX),
        reraise=True,
    )(turn)


def _is_passing(error: BaseException) -> bool:
    return is_transient(error) and not isinstance(
        error, psycopg.errors.AdminShutdown | psycopg.errors.CrashShutdown | psycopg.InterfaceError
    )
