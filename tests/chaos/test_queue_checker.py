"""The checker knows queue groups: a good history passes, each corrupted one is found by name.

The good history is a real one, of workers and of a SQL client.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from psycopg import Connection

import gapless
from chaos.checked import Run, played
from chaos.checker import outcomes, report
from chaos.checker.facts import gather
from chaos.checker.queue_rows import gather_queues
from chaos.checker.queues import find_in
from chaos.checker.violation import Violation
from chaos.history import Answered, Record, Writer
from chaos.queue_client import WAYS, Client
from chaos.queue_shop import QUEUES, make_groups, once, outside
from gapless import testing

EVENTS = 60
LAPSE_S = 0.6
TAGS = """
select t.name, s.partition_id, s.base_offset + u.n - 1, o.event_type
from gapless.log_segment s
join gapless.topic t using (topic_id)
cross join lateral unnest(s.message_ids) with ordinality u (id, n)
join gapless.outbox_message_t o on o.id = u.id
"""
HANDLED = "(select min(c_offset) from chaos.job where group_id = 'sender' and who = 'worker')"
CLIENTS = "(select min(id) from chaos.job where receipt is not null)"
AGAIN = """
insert into chaos.job (group_id, topic, partition_id, c_offset, tag, who)
select group_id, topic, partition_id, c_offset, tag, 'another' from chaos.job
"""
# The statements that corrupt, by the name of the violation.
IN_TABLES = {
    "job lost": f"delete from chaos.job where group_id = 'sender' and c_offset = {HANDLED}",
    "job done twice": f"{AGAIN} where group_id = 'sender' and c_offset = {HANDLED}",
    "job done and dead": (
        "insert into chaos.job (group_id, topic, partition_id, c_offset, tag, who)"
        " select group_id, 't', partition_id, first_offset, 'x', 'worker'"
        " from gapless.dead_letter where state = 'dead' limit 1"
    ),
    "another job": f"update chaos.job set tag = 'other' where id = {CLIENTS}",
    "floor over an open job": (
        "delete from chaos.queue_change where what = 'range' and is_finished"
        " and lease_no = (select min(lease_no) from chaos.queue_change)"
    ),
    "floor fell": (
        "insert into chaos.queue_change (what, lease_no, first_offset)"
        " select 'floor', min(lease_no), 1 from chaos.queue_change"
    ),
    "acknowledgement lost": f"update chaos.job set receipt = 'x' where id = {CLIENTS}",
}


@pytest.fixture(scope="module")
def run(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("history")
    testing.install(module_dsn, topics={"t": 1})

    def play(conn: Connection) -> None:
        make_groups(conn, "t")
        _play(module_dsn, conn, folder)

    with played(module_dsn, folder, play, look=_look) as run:
        yield run


def _look(conn: Connection, records: list[Record]) -> list[Violation]:
    rows = conn.execute(TAGS).fetchall()
    tags = {(topic, partition, offset): tag for topic, partition, offset, tag in rows}
    return [*find_in(gather_queues(conn, records), tags)]


def _play(dsn: str, conn: Connection, folder: Path) -> None:
    writer = Writer(folder, "test")
    for group in QUEUES:
        writer.write(group)
    for n in range(EVENTS):
        event = gapless.NewEvent(payload={"poison": n % 20 == 7}, key=str(n), event_type=f"e{n}")
        gapless.publish(conn, "t", [event])
    gapless.testing.install(dsn)
    conn.execute("select gapless.sequence_events()")
    client = Client(writer, "client", Random(5), "t")
    for group in QUEUES:
        for way in (*WAYS, "acknowledge", "forget"):
            assert client.turn(conn, group.group, way)
    conn.execute("select pg_sleep(%s)", [LAPSE_S])  # what was forgotten
    for handler in (once("t"), outside(dsn, "t")):
        left = True
        while left:
            testing.drain(dsn, handler)
            row = conn.execute(
                "select sum(s.open + s.in_hand + s.waiting) from gapless.queue_state(%s) s",
                [handler.group],
            ).fetchone()
            left = bool(row and row[0])


@pytest.mark.long
def test_a_good_history_passes(run: Run) -> None:
    found = run.violations()
    assert not found, report(found)
    everywhere = [*outcomes.find(gather(run.conn, run.records))]
    assert not everywhere, "who looks at ordered groups takes these for others"
    who = {row[0] for row in run.conn.execute("select distinct who from chaos.job").fetchall()}
    assert who == {"worker", "client"}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", IN_TABLES)
def test_a_corrupted_table_is_found(run: Run, name: str) -> None:
    run.found(name, IN_TABLES[name])


def test_an_effect_of_a_lost_receipt_is_found(run: Run) -> None:
    records = [
        replace(each, ended="lost") if isinstance(each, Answered) and each.ended == "ok" else each
        for each in run.records
    ]
    run.found_in("effect of a lost receipt", records)
