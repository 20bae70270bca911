"""A supervisor whose database is away at the start waits for it, with one line; or not for long."""

from signal import SIGTERM

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.postgres.account import server_account
from gapless.features.server.server import throwaway_cluster
from support.fleet import Fleet, until

WAITS = "cannot connect to PostgreSQL"


def test_a_database_that_lets_nobody_in_is_waited_for(fleet: Fleet) -> None:
    fleet.close_door()
    a = fleet.start("a")
    until(lambda: a.logged("is not currently accepting connections"), "it has tried")
    fleet.open_door()
    fleet.until_owners(a=4)
    fleet.publish({}, partition=1)
    fleet.until_handled()
    assert a.log().count(WAITS) == 1
    assert "Traceback" not in a.log()


@pytest.mark.long
@pytest.mark.parametrize("is_standby", [False, True], ids=["started later", "promoted later"])
def test_a_server_that_is_not_ready_yet(fleet: Fleet, is_standby: bool) -> None:
    with throwaway_cluster() as cluster:
        with connect(cluster.dsn(), role="test") as conn:
            migrate(conn)
        cluster.stop()
        if is_standby:
            (cluster.data_dir / "standby.signal").touch()
            server_account().give(cluster.data_dir / "standby.signal")
            cluster.start()
        a = fleet.start("a", dsn=cluster.dsn())
        said = "is a read-only standby" if is_standby else WAITS
        until(lambda: a.logged(said), "it has tried", within=a.log)
        if is_standby:
            with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
                conn.execute("select pg_promote()")
        else:
            cluster.start()
        until(lambda: a.logged("supervisor: joined"), "it has joined", within=a.log)
        assert a.log().count(said) == 1
        a.signal(SIGTERM)
        assert a.ended() == 0


@pytest.mark.long
def test_it_ends_when_the_time_is_over(fleet: Fleet) -> None:
    a = fleet.start("a", dsn="host=/nowhere", start_timeout_s=1)
    assert a.ended() != 0
    assert "UnreachableError" in a.log()
    assert a.log().count("trying again for 1 s") == 1


@pytest.mark.long
def test_what_waiting_does_not_mend_ends_it_at_once(fleet: Fleet) -> None:
    a = fleet.start("a", dsn=make_conninfo(fleet.dsn, dbname="gapless_nowhere"))
    b = fleet.start("b", dsn=make_conninfo(fleet.dsn, dbname="postgres"))
    assert a.ended() != 0
    assert b.ended() != 0
    assert 'database "gapless_nowhere" does not exist' in a.log()
    assert "SchemaError" in b.log()
    assert "trying again" not in a.log() + b.log()
