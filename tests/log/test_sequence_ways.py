"""A small run, and what it would have given the long way: the same segments, whatever is pending (I1 to I5)."""

from random import Random
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.sequenced import PUBLISH, SequencedLog

UUIDS = [None, *(f"00000000-0000-0000-0000-00000000000{n}" for n in range(2))]
CAUSES = [None, "g/t/0@1", "g/t/0@2"]
FEW = 64
STRAY = 60_000  # a topic that nobody has made
# `events` of the newest run decides which way the next one goes: after many the long way is taken at once.
WAYS = {"few": 0, "many": FEW + 1}
AFTER = (
    "update gapless.sequencer set events = %s where run = (select max(run) from gapless.sequencer)"
)
RUN = """
select (select array_agg(to_jsonb(s) - 'sequenced_ts' order by s.topic_id, s.partition_id, s.base_offset)
  from gapless.log_segment s where s.run = q.run), q.run, q.floor_id, q.next_floor_id, q.has_unrouted, q.stragglers::text, q.events
from gapless.sequencer q order by q.run desc limit 1
"""
FORGET = "delete from gapless.unrouted; update gapless.sequencer set has_unrouted = false"
CALLS = "select coalesce(sum(calls), 0) from pg_stat_xact_user_functions where funcname = 'sequence_many'"


class World:
    """Publishers with open transactions, and one sequencer."""

    def __init__(self, log: SequencedLog, publishers: list[Connection[Any]], seed: int) -> None:
        self.log = log
        self.publishers = publishers
        self.draw = Random(seed)
        self.topics = [log.topic(partitions) for partitions in (1, 2, 5)]
        self.small = 0

    def publish(self, conn: Connection[Any]) -> None:
        draw = self.draw
        size = draw.choice(
            [1, 1, 1, 2, 5, *([FEW - 1, FEW, FEW + 1] if draw.random() < 0.1 else [])]
        )
        topic = STRAY if draw.random() < 0.01 else draw.choice(self.topics)
        key = draw.choice([None, "a", "b", "c", "d"])
        rows = [(topic, key, draw.choice(UUIDS), draw.choice(CAUSES)) for _ in range(size)]
        conn.cursor().executemany(PUBLISH, rows)

    def step(self) -> None:
        draw = self.draw
        conn = draw.choice(self.publishers)
        if conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            conn.execute("begin")
            return self.publish(conn)
        match draw.choice(["publish", "publish", "undo", "commit", "commit", "rollback", "change"]):
            case "publish":
                self.publish(conn)
            case "undo":
                with conn.transaction(force_rollback=True):
                    self.publish(conn)
            case "change":
                topic, partitions = draw.choice(self.topics), draw.choice([1, 2, 3, 8])
                self.log.conn.execute(
                    "select gapless.set_partitions(name, %s) from gapless.topic where topic_id = %s",
                    [partitions, topic],
                )
            case end:
                conn.execute(end)
        return None

    def sequence(self) -> None:
        conn, told = self.log.conn, {}
        if self.draw.random() < 0.5:
            conn.execute(FORGET)
        for way, events in WAYS.items():
            conn.execute(AFTER, [events])
            with conn.transaction(force_rollback=way == "few"):
                (calls,) = self.log.row(CALLS)
                told[way] = (
                    conn.execute("select gapless.sequence_events()").fetchone(),
                    self.log.row(RUN),
                )
                if way == "few":
                    self.small += self.log.row(CALLS) == (calls,) and told[way][0] != (0,)
        if told["many"][0] == (0,) and told["many"][1][-1] == WAYS["many"]:
            told["many"] = (told["many"][0], (*told["many"][1][:-1], 0))  # nothing was written
        assert told["few"] == told["many"]


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(8))
def test_both_ways_give_the_same(sequenced: SequencedLog, module_dsn: str, seed: int) -> None:
    publishers = [connect(module_dsn, role=f"publisher {n}") for n in range(3)]
    try:
        sequenced.conn.execute("set track_functions = 'pl'")
        world = World(sequenced, publishers, seed)
        for _ in range(40):
            for _ in range(world.draw.randint(0, 6)):
                world.step()
            world.sequence()
        for conn in publishers:
            conn.rollback()
        assert world.small >= 8
    finally:
        for conn in publishers:
            conn.close()
