"""An invented next version (following.py) on a schema of today: upgraded under load, killed half way, each refused in a line."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from signal import SIGTERM

import psycopg
import pytest
from psycopg import Connection

from gapless import ops
from gapless.db.connect import connect
from gapless.db.migrate import require_schema, script
from gapless.errors import SchemaError
from migration.following import HOLD, NAMES, WAIT_HALF_WAY, WAITING, Following, answer
from support.fleet import Fleet, Load, until
from support.ledger import assert_exactly_once

DatabaseLike = Callable[[str], AbstractContextManager[str]]
APPLIED = "select jsonb_object_agg(kind || '/' || name, digest) from gapless.migration"
# What it has that is there before an upgrade, and after it.
THERE = """
select array[to_regclass('gapless.note') is not null, to_regclass('gapless.notes') is not null,
  to_regprocedure('gapless.finish_batch(text)') is null, to_regprocedure('gapless.transaction_fate(uuid)') is null,
  to_regprocedure('gapless.finish_batch(text, text)') is not null,
  exists (select from pg_attribute where attrelid = 'gapless.topics'::regclass and attname = 'label')]
"""


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory, database_like: DatabaseLike) -> Following:
    made = Following(tmp_path_factory.mktemp("next"))
    with database_like("template1") as empty_dsn, connect(empty_dsn, role="test") as conn:
        made.lay_out(conn)
    return made


@pytest.fixture
def fleet(conn: Connection, dsn: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(dsn, conn, tmp_path)
    try:
        yield made
    finally:
        made.close()
        print(made.logs())  # noqa: T201


def test_each_is_told_what_to_do(following: Following, conn: Connection, dsn: str) -> None:
    code, said = answer(following.begin(dsn, "topics"))
    assert code == 2
    assert "is older than this program (0001_notes is missing or changed): run gapless init" in said
    assert said.count("\n") == 1
    assert answer(following.begin(dsn, "init"))[0] == 0
    applied = conn.execute(APPLIED).fetchone()
    for refused in (require_schema, ops.install_schema, ops.plan_upgrade, script):
        with pytest.raises(SchemaError, match=r"newer .* \(it has 0002_labels\): upgrade gapless"):
            refused(conn)
    assert conn.execute(APPLIED).fetchone() == applied


@pytest.mark.long
@pytest.mark.timeout(240)
def test_upgraded_under_load(
    following: Following, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fleet.start("old")
    fleet.until_owners(old=4)
    fleet.conn.execute(WAIT_HALF_WAY.encode())
    applied = fleet.value(APPLIED)
    with Load(fleet) as load:
        load.go_on()
        fleet.conn.execute("select pg_advisory_lock(%s)", [HOLD])
        killed = following.begin(fleet.dsn, "init")
        until(
            lambda: fleet.value(WAITING) or killed.poll() is not None,
            "it is half way",
            timeout_s=90,
        )
        assert killed.poll() is None, answer(killed)
        killed.kill()
        answer(killed)
        until(lambda: not fleet.value(WAITING), "the server has ended its session")
        assert fleet.value(APPLIED) == applied
        assert not any(fleet.value(THERE)), "nothing is left of it"
        load.go_on()
        fleet.conn.execute("drop event trigger wait_half_way")
        assert answer(following.begin(fleet.dsn, "init"))[0] == 0
        assert all(fleet.value(THERE))
        _until_more(fleet)  # those of before continue
        assert old.process.poll() is None
        assert old.deaths() == 0
        with monkeypatch.context() as inside:
            inside.setenv("PYTHONPATH", following.path)
            fleet.start("new")
        fleet.until_owners(old=2, new=2)
        load.go_on()
        old.signal(SIGTERM)
        old.ended()
        _until_more(fleet)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.value("select array_agg(note) from gapless.note") == ["t"]


def _until_more(fleet: Fleet) -> None:
    """Wait until events are handled that are published from now on."""
    goal = fleet.value("select count(*) from ledger") + 200
    until(
        lambda: fleet.value("select count(*) from ledger") >= goal,
        "more is handled",
        within=fleet.logs,
    )


@pytest.mark.long
def test_its_script_for_psql_locks_first_and_gives_up_soon(
    following: Following, conn: Connection, dsn: str
) -> None:
    """As init does: so no publisher fails by a deadlock with it."""
    code, text = answer(following.begin(dsn, "init", "--sql"))
    assert code == 0
    changed = text.index("\ncreate table gapless.note")
    for name in ("consumer_offsets", "topic", "outbox_message_t"):
        assert 0 < text.find(f'\nlock table "gapless"."{name}" in ') < changed
    with connect(dsn, role="other") as other, connect(dsn, role="psql") as here:
        with other.transaction():
            other.execute("lock table gapless.topic in access share mode")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                here.execute(text.encode())
            here.execute("rollback")
        assert not any(*conn.execute(THERE).fetchone() or ())
        here.execute(text.encode())
    assert answer(following.begin(dsn, "init", "--sql"))[1].startswith("-- nothing to do")


def test_the_plan_is_what_happens(following: Following, conn: Connection, dsn: str) -> None:
    for name in ("orders", "bills", "mails"):
        conn.execute("select gapless.create_topic(%s, 1)", [name])
    conn.execute("analyze gapless.topic")
    said = answer(following.begin(dsn, "init", "--plan"))[1].splitlines()
    assert said[0].endswith("is at baseline")
    assert said[1].startswith(
        "would apply 2 migrations, 1 function, 2 views, roles, in one transaction"
    )
    assert said[2:4] == [f"  {name}" for name in NAMES]
    assert said[4:8] == [
        "  0001_notes locks consumer_offsets (about 0 rows, 0 B) against readers and writers; rows are written",
        "  0001_notes locks outbox_message_t (about 0 rows, 0 B) against readers and writers; no row is touched",
        "  0001_notes locks topic (about 3 rows, 8 kB) against writers; no row is touched",
        "  0002_labels locks topic (about 3 rows, 8 kB) against readers and writers; all rows are read",
    ]
    assert said[-2] == "gone for programs that call them: transaction_fate"
    assert not any(*conn.execute(THERE).fetchone() or ()), "nothing was done"
    assert (
        answer(following.begin(dsn, "init"))[1]
        .splitlines()[0]
        .endswith("2 migrations, 1 function, 2 views, roles")
    )
