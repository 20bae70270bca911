"""Tasks work with the driver's database, wherever their own environment leads, or say so."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from gapless.db.connect import connect
from gapless.errors import GaplessError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

from gapless.features.spark import bulk
from gapless.features.spark.options import read_options
from gapless.features.spark.reach import connect_task, identity_of, reached
from gapless.features.spark.sink import stage
from gapless.features.spark.source import look, plan_batch, read_task

_PLACE = ("host", "port", "user", "dbname")
ANOTHER = "a Spark task reached another database than the driver, by .*dbname "


@pytest.fixture
def said(dsn: str) -> dict[str, str]:
    """The parts of the test's DSN."""
    return {name: str(value) for name, value in conninfo_to_dict(dsn).items()}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, said: dict[str, str]) -> pytest.MonkeyPatch:
    """The environment alone says where the database is, and with which password."""
    monkeypatch.delenv("GAPLESS_DSN", raising=False)
    for name, key in (("PGHOST", "host"), ("PGPORT", "port"), ("PGUSER", "user")):
        monkeypatch.setenv(name, said[key])
    monkeypatch.setenv("PGDATABASE", said["dbname"])
    monkeypatch.setenv("PGPASSWORD", "of the driver")
    return monkeypatch


def test_tasks_go_where_the_driver_was(
    alone: pytest.MonkeyPatch, conn: Connection, topic: Topic, server_dsn: str
) -> None:
    publish(conn, "outbox", [NewEvent(payload={"n": n}) for n in range(7)])
    options = read_options({"subscribe": "outbox"})
    assert options.dsn == ""
    plan = plan_batch(options, look(options))
    alone.setenv("PGDATABASE", str(conninfo_to_dict(server_dsn)["dbname"]))  # of an executor
    alone.setenv("PGPORT", "1")
    alone.delenv("PGPASSWORD")
    assert conninfo_to_dict(plan.reached.dsn)["password"] == "of the driver"
    read = [batch for task in plan.tasks for batch in read_task(options, task, plan.reached)]
    assert sum(batch.num_rows for batch in read) == 7


def test_a_service_and_a_passfile_are_looked_up_by_the_driver(
    alone: pytest.MonkeyPatch, said: dict[str, str], tmp_path: Path
) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD"):
        alone.delenv(name)
    services, passwords = tmp_path / "services", tmp_path / "passwords"
    services.write_text("[shop]\n" + "".join(f"{name}={said[name]}\n" for name in said))
    passwords.write_text("*:*:*:*:of the file\n")
    passwords.chmod(0o600)
    alone.setenv("PGSERVICEFILE", str(services))
    alone.setenv("PGPASSFILE", str(passwords))
    with connect("service=shop", role="test") as conn:
        there = reached(conn)
    found = conninfo_to_dict(there.dsn)
    expected = {**{name: said[name] for name in said}, "password": "of the file"}
    assert {name: found.get(name) for name in expected} == expected
    assert not {"service", "passfile", "servicefile"} & set(found)
    assert "of the file" not in repr(there)


def test_a_file_of_this_machine_is_sent_only_if_it_was_said(
    alone: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone.setenv("PGSSLROOTCERT", str(tmp_path / "here.crt"))
    with connect("", role="test") as conn:
        assert set(conninfo_to_dict(reached(conn).dsn)) == {*_PLACE, "password"}
    with connect(f"sslrootcert={tmp_path}/said.crt", role="test") as conn:
        assert conninfo_to_dict(reached(conn).dsn)["sslrootcert"] == f"{tmp_path}/said.crt"


@pytest.mark.parametrize("road", ["read", "stage", "session"])
def test_another_database_is_refused(
    dsn: str, empty_dsn: str, conn: Connection, topic: Topic, road: str
) -> None:
    """What is called the same, and is another server there: localhost, or a name in /etc/hosts."""
    identity = identity_of(conn)
    with pytest.raises(GaplessError, match=ANOTHER) as refused:
        _go(road, empty_dsn, identity)
    assert "\n" not in str(refused.value)
    _go(road, dsn, identity)
    other = f"1{identity}"  # another cluster, whose database has the same number
    with pytest.raises(GaplessError, match=ANOTHER):
        _go(road, dsn, other)


def _go(road: str, dsn: str, identity: str) -> Any:
    from psycopg import sql

    if road == "read":
        return bulk.fetch_arrow(dsn, sql.Composed([sql.SQL("select 1")]), identity)
    if road == "stage":
        return stage(dsn, "outbox", 0, [], identity)
    connect_task(dsn, role="test", identity=identity).close()
    return None
