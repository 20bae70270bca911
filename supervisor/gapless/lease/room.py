"""Check that the server admits the sessions of a fleet, and that lost ones can be ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.errors import ConnectError

MANY_PARTITIONS = 16  # of one supervisor; with more, a process for each costs too much for most
SESSIONS_PER_SUPERVISOR = 2  # control, and the candidate for the sequencer's role


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The sessions of a complete fleet, including the member that is about to join.

    own: sessions of the supervisors beside those of their workers.
    """

    supervisors: int
    partitions: int
    workers: int
    max_connections: int
    reserved: int
    own: int

    @property
    def needed(self) -> int:
        return self.workers + self.own

    @property
    def admitted(self) -> int:
        return self.max_connections - self.reserved


class Own(NamedTuple):
    """The needs of a member beside workers of partitions.

    sessions: for itself. queue_workers: processes for its queue groups, with a session each.
    """

    sessions: int = SESSIONS_PER_SUPERVISOR
    queue_workers: int = 0


def own_sessions(*, is_measured: bool) -> int:
    """Return the number of sessions that a supervisor takes beside those of its workers."""
    return SESSIONS_PER_SUPERVISOR + is_measured  # its exporter has one


_UNMEASURED = Own()


def require_room(
    conn: Connection[Any],
    groups_and_topics: Iterable[tuple[str, str]],
    *,
    capacity: int | None,
    partitions_per_worker: int,
    total_partitions: int,
    own: Own = _UNMEASURED,
) -> None:
    """Raise ConnectError, with the figures, if the server cannot serve all partitions.

    own: the needs of the member that is about to join.

    An error now is better than a later one: workers without a session leave partitions idle.
    """
    pairs = list(groups_and_topics)
    params = {
        "groups": [group for group, _ in pairs],
        "topics": [topic for _, topic in pairs],
        "capacity": capacity,
        "partitions_per_worker": partitions_per_worker,
        "total_partitions": total_partitions,
        "sessions": own.sessions,
    }
    with conn.cursor(row_factory=class_row(Demand)) as cursor:
        demand = cursor.execute(query("lease", "sessions_needed"), params).fetchone()
    assert demand is not None
    demand = replace(demand, workers=demand.workers + own.queue_workers)
    if demand.needed > demand.admitted:
        raise ConnectError(_explain(demand))


def missing_grant(conn: Connection[Any]) -> str | None:
    """Return, as a sentence, the missing grant that keeps an evicted member's session; or None.

    The functions that end a session run as the schema's owner, which needs this role's rights.
    """
    row = conn.execute(query("lease", "missing_grant")).fetchone()
    if row is None:
        return None
    owner, role = row
    return (
        f'the role "{owner}", which owns the schema, may not end sessions of the role "{role}": a '
        "worker that was evicted while it hangs would keep its partition for long; "
        f'grant "{role}" to "{owner}", or grant pg_signal_backend to it'
    )


def _explain(demand: Demand) -> str:
    partitions = f"{demand.partitions} partition" + (
        "s take" if demand.partitions != 1 else " takes"
    )
    workers = f"{demand.workers} worker" + ("s" if demand.workers != 1 else "")
    supervisors = f"{demand.supervisors} supervisor" + (
        "s take" if demand.supervisors != 1 else " takes"
    )
    return (
        f"{partitions} {workers} with a session each, and "
        f"{supervisors} {demand.own}, for control, sequencer and metrics: "
        f"{demand.workers} + {demand.own} = {demand.needed} "
        f"sessions, but the server admits {demand.admitted} (max_connections "
        f"{demand.max_connections} less {demand.reserved} reserved); raise max_connections, or let "
        "each worker serve several partitions (partitionsPerWorker: auto), or set capacity"
    )
