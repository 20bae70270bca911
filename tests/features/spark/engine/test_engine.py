"""Handlers in Spark's tasks: the same step under the same fence; a killed task loses nothing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import Connection

from gapless.consume.user.load import load_handlers
from gapless.features.spark.engine import Engine
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic
from gapless.settings import Settings
from gapless.worker.plan import make_plan
from support.group import owner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 200
BAD, KILLER = 77, 50
FORK = {20: {"fork": "returns"}, 21: {"fork": "raises"}}
PATIENCE_S = 400.0


def test_every_effect_once_although_a_task_is_killed(
    spark: SparkSession, conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    conn.execute("create table effect (partition_id int, c_offset bigint, n int)")
    killed = tmp_path / "killed"
    for n in range(EVENTS):
        extra = {KILLER: {"kill": str(killed)}, BAD: {"bad": True}, **FORK}.get(n, {})
        publish(conn, "outbox", [NewEvent(payload={"n": n, **extra}, key=str(n))])
    reference = f"{Path(__file__).parents[3] / 'spark_handlers.py'}:note"
    settings = Settings(total_partitions=4)
    plan = make_plan(settings, dsn, load_handlers(reference))
    give_up_s = time.monotonic() + PATIENCE_S

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return not _is_done(conn) and time.monotonic() < give_up_s

    engine = Engine(plan, (reference,), spark.sparkContext)
    assert engine.run(wait) == 0
    assert killed.exists()
    rows = conn.execute("select n from effect order by n").fetchall()
    assert [n for (n,) in rows] == [n for n in range(EVENTS) if n != BAD]
    letters = conn.execute("select count(*) from gapless.letters").fetchone()
    assert letters == (1,)
    assert conn.execute("select count(*) from gapless.member").fetchone() == (0,)
    left = conn.execute("select count(*) from gapless.lease where owner is not null").fetchone()
    assert left == (0,)
    # A worker goes on where the tasks ended: they share the group's offsets.
    with owner(dsn, "on-spark", topic):
        assert _is_done(conn)


def _is_done(conn: Connection) -> bool:
    row = conn.execute(
        "select sum(next_offset - 1) from gapless.consumer_offsets where group_id = 'on-spark'"
    ).fetchone()
    return row is not None and row[0] == EVENTS
