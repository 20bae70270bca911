"""Planning: the time of a plan for many partitions and many members, alone in its group."""

from __future__ import annotations

from time import perf_counter
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection

from benchmarks.figure import Figure, Target
from benchmarks.queries import query
from benchmarks.server import Setup

PARTITIONS = 4096
MEMBERS = 64
MS_MAX = 100.0


def run(setup: Setup) -> list[Figure]:
    """Plan again with one more member, with one less, and when nothing has changed."""
    took: dict[str, list[float]] = {}
    with setup.database("planning") as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(query("many_partitions"), {"partitions": PARTITIONS})
        members = [_join(conn) for _ in range(MEMBERS)]
        for _ in range(setup.pick(1, 3, 10)):
            conn.execute(query("forget_plan"))
            took.setdefault("the first plan", []).append(_plan(conn))
            members.append(_join(conn))
            took.setdefault("one more member", []).append(_plan(conn))
            conn.execute(query("leave"), {"member_id": members.pop(0)})
            took.setdefault("one member less", []).append(_plan(conn))
            took.setdefault("nothing changed", []).append(_plan(conn))
            conn.execute(query("vacuum_lease"))
    return [
        Figure(
            what=f"plan, {PARTITIONS} partitions, {MEMBERS} members: {what}",
            unit="ms",
            ours=tuple(values),
            target=Target("value", at_most=MS_MAX),
        )
        for what, values in took.items()
    ]


def _join(conn: Connection[tuple[object, ...]]) -> UUID:
    member_id = uuid4()
    conn.execute(query("join"), {"member_id": member_id})
    return member_id


def _plan(conn: Connection[tuple[object, ...]]) -> float:
    began_s = perf_counter()
    conn.execute(query("plan"))
    return (perf_counter() - began_s) * 1000
