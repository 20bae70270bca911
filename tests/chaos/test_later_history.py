"""The checker of events for later takes a real history for a good one, and finds what was corrupted in it."""

from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from psycopg import Connection

from chaos.checker import later, report
from chaos.checker.facts import gather
from chaos.checker.violation import Violation
from chaos.effects import make_tables
from chaos.history import Record, Writer, read
from chaos.later_client import Client
from chaos.later_shop import due, make_schedules, rest
from gapless import testing
from gapless.db.connect import connect

pytestmark = pytest.mark.long

TURNS = 32
STEPS = ("-2 s", "70 s", "100 s", "98 s")  # by which the clock is ahead, one after the other
STEP = "insert into chaos.clock_step (ahead) values (%s) returning id"
CORRUPTIONS = {
    "before its time": "update chaos.wait set deliver_at = deliver_at + interval '1 hour'",
    "came, and waits still": "delete from chaos.wait where what = 'DELETE'",
    "missed otherwise than said": "update chaos.fired set next_due = next_due + interval '5 min'",
}


class _Run:
    def __init__(self, conn: Connection, records: list[Record]) -> None:
        self.conn = conn
        self.records = records

    def violations(self) -> list[Violation]:
        return [*later.find(gather(self.conn, self.records))]


@pytest.fixture(scope="module")
def run(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Run]:
    folder = tmp_path_factory.mktemp("history")
    testing.install(module_dsn, topics={})
    with (
        connect(module_dsn, role="test") as conn,
        psycopg.connect(module_dsn, autocommit=True, application_name="chaos/later") as one,
        psycopg.connect(module_dsn, autocommit=True, application_name="chaos/later") as other,
    ):
        make_tables(conn)
        make_schedules(conn)
        client = Client(Writer(folder, "test"), "client", Random(3))
        for number in range(TURNS):
            client.turn(one, other)
            if number % 8 == 4:
                _step(conn, STEPS[number // 8 % len(STEPS)])
            _promote(conn)
        while due(conn)[0]:
            _promote(conn)
        rest(conn)
        _promote(conn)
        yield _Run(conn, read(folder))


def _step(conn: Connection, ahead: str) -> None:
    row = conn.execute(STEP, [ahead]).fetchone()
    assert row is not None
    conn.execute("update chaos.clock_step set confirmed = clock_timestamp() where id = %s", row)


def _promote(conn: Connection) -> None:
    conn.execute("select * from gapless.promote()")
    conn.execute("select gapless.sequence_events()")


def test_a_real_history_is_good(run: _Run) -> None:
    found = run.violations()
    assert not found, report(found)
    row = run.conn.execute(
        "select count(*) filter (where what = 'DELETE' and application = 'chaos/later'),"
        " count(*) filter (where what = 'DELETE' and application <> 'chaos/later'),"
        " (select count(*) from chaos.fired where events > 1) from chaos.wait"
    ).fetchone()
    assert all(row or [0]), f"cancelled, promoted, made up for together: {row}"


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_history_is_found(run: _Run, name: str) -> None:
    with run.conn.transaction(force_rollback=True):
        assert run.conn.execute(CORRUPTIONS[name].encode()).rowcount > 0
        assert name in {each.name for each in run.violations()}
