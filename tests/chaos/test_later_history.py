"""The checker of events for later takes a real history for a good one."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from psycopg import Connection

from chaos.checked import Run, played
from chaos.checker import later, report
from chaos.checker.facts import gather
from chaos.checker.violation import Violation
from chaos.effects import session
from chaos.history import Record, Writer
from chaos.later_client import Client
from chaos.later_shop import due, make_schedules, rest

pytestmark = pytest.mark.long

TURNS = 32
STEPS = ("-2 s", "70 s", "100 s", "98 s")  # by which the clock is ahead, one after the other
STEP = "insert into chaos.clock_step (ahead) values (%s) returning id"


@pytest.fixture(scope="module")
def run(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("history")

    def play(conn: Connection) -> None:
        _play(module_dsn, conn, folder)

    with played(module_dsn, folder, play, look=_look) as run:
        yield run


def _look(conn: Connection, records: list[Record]) -> list[Violation]:
    return [*later.find(gather(conn, records))]


def _play(dsn: str, conn: Connection, folder: Path) -> None:
    with (
        session(dsn, "later") as one,
        session(dsn, "later") as other,
    ):
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


def _step(conn: Connection, ahead: str) -> None:
    row = conn.execute(STEP, [ahead]).fetchone()
    assert row is not None
    conn.execute("update chaos.clock_step set confirmed = clock_timestamp() where id = %s", row)


def _promote(conn: Connection) -> None:
    conn.execute("select * from gapless.promote()")
    conn.execute("select gapless.sequence_events()")


def test_a_real_history_is_good(run: Run) -> None:
    found = run.violations()
    assert not found, report(found)
    row = run.conn.execute(
        "select count(*) filter (where what = 'DELETE' and application = 'chaos/later'),"
        " count(*) filter (where what = 'DELETE' and application <> 'chaos/later'),"
        " (select count(*) from chaos.fired where events > 1) from chaos.wait"
    ).fetchone()
    assert all(row or [0]), f"cancelled, promoted, made up for together: {row}"
