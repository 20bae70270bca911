"""Real workers of both kinds before a hole in one partition: the other is served, and a skip is seen (I8)."""

import pytest
from psycopg import Connection

from gapless import ops
from gapless.log.sequence import sequence
from gapless.ops import GroupPlace
from support.fleet import until
from support.supervisors import Runs


@pytest.mark.long
@pytest.mark.parametrize("name", ["once", "outside"])
def test_workers_serve_the_others(runs: Runs, conn: Connection, name: str) -> None:
    """Real workers: what is published behind the hole's back is handled, and mended, the rest too."""
    numbers = runs.publish(count=30)
    while sequence(conn):
        pass
    ((first,),) = conn.execute(
        "select min(s.message_ids[1]) from gapless.log_segment s where s.partition_id = 0"
        " and s.topic_id = gapless.topic_id('jobs')"
    ).fetchall()
    kept = conn.execute(
        "delete from gapless.outbox_message_t where id = %s returning (payload ->> 'n')::int",
        [first],
    ).fetchone()
    assert kept is not None
    run = runs.start(name, workers=2, environ={"BATCH": "100"})
    runs.until_workers(run, 2)
    until(lambda: len(runs.done()) > 5, "the other partition's are done", within=runs.state)
    more = runs.publish(count=20)
    other = {
        n
        for (n,) in conn.execute(
            "select (m.payload ->> 'n')::int from gapless.outbox_message_t m"
            " where gapless.partition_of(m.key, 2) = 1"
        )
    }
    runs.until_done(sorted(other))
    ops.skip_hole(conn, GroupPlace.parse(f"{name}/jobs/0@1"))
    runs.until_done(sorted({*numbers, *more} - {kept[0]}))
    assert set(runs.done().values()) == {1}
