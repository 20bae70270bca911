"""Run a replay to its end: partition by partition, through the real step, in this process.

A scratch group has no members. Who runs it holds a partition's advisory lock and installs its own
fence, as a worker does, so several may run one replay side by side, and one that was killed and
wakes up late cannot commit (I6, I7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import tenacity

from gapless.consume.handler import Handler
from gapless.consume.step import step, step_alone
from gapless.consume.terms import Terms
from gapless.consume.turn import Turn
from gapless.db.connect import is_transient
from gapless.db.queries import query
from gapless.errors import FencedError, GaplessError
from gapless.keys import Assignment, Partition
from gapless.lease import hold
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

_RETRIES_S_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A partition of a replay; stop_offset is exclusive."""

    topic: str
    topic_id: int
    partition_id: int
    lease_no: int
    next_offset: int
    stop_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Of all partitions of a replay, by the database."""

    events: int
    done: int
    dead_units: int
    dead_events: int


def parts(conn: Connection[Any], name: str) -> list[Part]:
    """Return the partitions that have something left."""
    return rows(conn, Part, query("control", "replay_parts"), group=name)


def progress(conn: Connection[Any], name: str) -> Progress:
    """Return how far a replay is. Raises GaplessError when somebody removed it."""
    found = rows(conn, Progress, query("control", "replay_state"), group=name)
    if not found:
        raise GaplessError(f"replay {name} is not there any more: somebody removed it")
    return found[0]


def run(
    conn: Connection[Any],
    name: str,
    handler: Handler,
    terms: Terms,
    show: Callable[[int], None],
) -> None:
    """Handle what is left of the partitions that nobody else is at; `show` is told events.

    After a change of their number partitions wait for one another: it goes round as long as any of
    them moves. Raises GaplessError when none does. After an error the session is to be closed: it
    may still hold a partition.
    """
    moved, waiting = True, list[Part]()
    while moved:
        moved, waiting = False, []
        for part in parts(conn, name):
            if not hold.try_lock(conn, part.lease_no):
                continue
            waiting.append(part)
            for events in _partition(conn, name, part, handler, terms):
                moved = True
                show(events)
    left = {part.partition_id for part in parts(conn, name)}
    if left.intersection(part.partition_id for part in waiting):
        raise GaplessError(
            f"replay {name} is paused (gapless resume {name}, then go on with --continue), or its "
            "range leaves out what comes before it, in other partitions that the topic had"
        )


def _partition(
    conn: Connection[Any], name: str, part: Part, handler: Handler, terms: Terms
) -> Iterator[int]:
    partition = Partition(
        group_id=name, topic=part.topic, topic_id=part.topic_id, partition_id=part.partition_id
    )
    token = uuid4()
    where = {"group": name, "topic_id": part.topic_id, "partition_id": part.partition_id}
    row = conn.execute(query("control", "take_part"), {**where, "token": token}).fetchone()
    if row is None or row[0] is None:
        raise GaplessError(f"replay {name} is not there any more: somebody removed it")
    epoch, unclean = row
    assignment = Assignment(partition=partition, epoch=epoch, token=token)
    # Somebody may have been at it between our look and the lock.
    left = [each for each in parts(conn, name) if each.partition_id == part.partition_id]
    at = left[0].next_offset if left else part.stop_offset
    turn = Turn(conn=conn, assignment=assignment, handler=handler, terms=terms)
    alone = terms.batch_size if unclean else 0  # it may have died of one of these (I8)
    while at < part.stop_offset:
        size = min(terms.batch_size, part.stop_offset - at)
        begin = partial(step_alone, turn) if alone > 0 else partial(step, turn, batch_size=size)
        done = patiently(begin)
        if done.outcome == "fenced":
            raise FencedError(f"replay {name}: somebody else took over partition {partition}")
        if done.outcome == "idle":
            break
        alone -= done.events
        at = done.next_offset
        yield done.events
    hold.release(conn, assignment, part.lease_no)


def patiently(turn: Callable[[], Any]) -> Any:
    """Take a turn again while the environment makes it fail; a lost session ends the replay."""
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
