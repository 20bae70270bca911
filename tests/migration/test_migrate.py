"""The schema: installed once, upgraded in place, and never left half done."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from gapless.db.migrate import (
    SchemaChange,
    migrate,
    require_schema,
    script,
)
from gapless.db.queries import sql_files
from gapless.db.uninstall import uninstall
from gapless.errors import SchemaError
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from support.clients import psql


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[Connection]:
    """A session in a database without the schema."""
    with connect(empty_dsn, role="test") as made:
        yield made


def _schemas(conn: Connection) -> int:
    row = conn.execute("select count(*) from pg_namespace where nspname = 'gapless'").fetchone()
    assert row is not None
    return int(row[0])


def test_it_installs_everything_once(empty: Connection) -> None:
    changes = migrate(empty)
    files = {
        SchemaChange(kind=kind.replace("parts", "views"), name=path.stem)
        for kind in ("tables", "migrations", "functions", "views", "parts", "roles")
        for path in sql_files(kind)
    }
    assert set(changes) == files
    assert len(changes) == len(files)
    for kind in ("tables", "migrations"):
        numbered = [change.name for change in changes if change.kind == kind]
        assert numbered == sorted(numbered)
    require_schema(empty)
    assert migrate(empty) == []


@pytest.mark.long
def test_what_it_installed_works_without_chunks(empty: Connection) -> None:
    migrate(empty)
    ensure_topic(empty, "outbox", partitions=2)
    publish(empty, "outbox", 1)
    assert sequence(empty) == 1
    assert create_chunks(empty) > 0
    publish(empty, "outbox", 1)
    assert sequence(empty) == 1


@pytest.mark.long
def test_several_at_once_are_one_after_the_other(empty_dsn: str) -> None:
    def run(_: int) -> int:
        with connect(empty_dsn, role="test") as conn:
            return len(migrate(conn))

    with ThreadPoolExecutor(4) as pool:
        changes = sorted(pool.map(run, range(4)))
    assert changes[:3] == [0, 0, 0]
    assert changes[3] > 0


@pytest.mark.long
def test_the_script_for_psql_does_the_same(empty: Connection, empty_dsn: str) -> None:
    text = script(empty)
    assert _schemas(empty) == 0, "it only says what would be done"
    psql(empty_dsn, text)
    require_schema(empty)
    assert migrate(empty) == []
    assert script(empty) == ""


def test_roles_and_grants_are_made_again_when_asked(conn: Connection) -> None:
    """As after a restore without owners and privileges (docs/run/operations.md)."""
    conn.execute("revoke usage on schema gapless from gapless_consumer")
    conn.execute(
        "alter function gapless.ask_condition(uuid, gapless.condition_event[],"
        " gapless.condition_subscription[], bigint[], bigint[]) owner to current_user"
    )
    conn.execute("delete from gapless.migration where kind = 'roles'")
    assert {change.kind for change in migrate(conn)} == {"roles"}
    rights = (
        "select has_schema_privilege('gapless_consumer', 'gapless', 'usage'),"
        " gapless.conditions_are_safe()"
    )
    assert conn.execute(rights).fetchone() == (True, True)


def test_a_changed_function_is_applied_again_with_its_grants(conn: Connection) -> None:
    conn.execute("update gapless.migration set digest = 'older' where name = 'partition_of'")
    conn.execute(
        "create or replace function gapless.partition_of(key text, partitions int) returns int"
        " language sql immutable strict parallel safe as 'select 0'"
    )
    conn.execute("drop function gapless.transaction_uuid cascade")
    conn.execute("update gapless.migration set digest = 'older' where name = 'transaction_uuid'")
    with pytest.raises(SchemaError, match=r"older than this program \(partition_of .*gapless init"):
        require_schema(conn)
    assert migrate(conn) == [
        SchemaChange(kind="functions", name="partition_of"),
        SchemaChange(kind="functions", name="transaction_uuid"),
        *(SchemaChange(kind="roles", name=path.stem) for path in sql_files("roles")),
    ]
    require_schema(conn)
    restored = conn.execute(
        "select gapless.partition_of('aa', 8), has_function_privilege('gapless_producer',"
        " 'gapless.transaction_uuid(xid8, int)', 'execute'),"
        " has_function_privilege('public', 'gapless.transaction_uuid(xid8, int)', 'execute')"
    ).fetchone()
    assert restored == (5, True, False)


def test_a_newer_schema_is_refused(conn: Connection) -> None:
    conn.execute("insert into gapless.migration values ('migrations', '9999_future', 'x')")
    for check in (migrate, require_schema):
        with pytest.raises(SchemaError, match=r"newer than this program .*9999_future.*upgrade"):
            check(conn)


def test_another_form_of_an_applied_migration_is_refused(conn: Connection) -> None:
    conn.execute("update gapless.migration set digest = 'x' where name = '01_log'")
    for check in (migrate, require_schema):
        with pytest.raises(SchemaError, match="use that one, or save its events"):
            check(conn)


def test_a_database_without_the_schema(empty: Connection) -> None:
    with pytest.raises(SchemaError, match=f'"{empty.info.dbname}" has no gapless schema: run'):
        require_schema(empty)


@pytest.mark.long
def test_uninstall_and_install_again(conn: Connection) -> None:
    ensure_topic(conn, "outbox", partitions=2)
    publish(conn, "outbox", 1)
    uninstall(conn)
    uninstall(conn)
    assert _schemas(conn) == 0
    migrate(conn)
    ensure_topic(conn, "outbox", partitions=3)
    publish(conn, "outbox", 1)
    assert sequence(conn) == 1


@pytest.fixture
def owner_dsn(empty: Connection, empty_dsn: str) -> Iterator[str]:
    """The DSN of a role that may make a schema here, and nothing else."""
    name, password = f"gapless_test_{uuid4().hex[:12]}", uuid4().hex
    empty.execute(f"create role {name} login password '{password}'")
    empty.execute(f"grant create on database {empty.info.dbname} to {name}")
    yield make_conninfo(empty_dsn, user=name, password=password)
    empty.execute(f"drop owned by {name} cascade; drop role {name}")


@pytest.mark.long
def test_no_superuser_is_needed(owner_dsn: str) -> None:
    with connect(owner_dsn, role="test") as conn:
        assert migrate(conn) != []
        assert migrate(conn) == []
        create_chunks(conn)
        ensure_topic(conn, "outbox", partitions=2)
        publish(conn, "outbox", 1)
        assert sequence(conn) == 1
        uninstall(conn)


def test_a_role_that_may_not_make_a_schema(empty: Connection, owner_dsn: str) -> None:
    with connect(owner_dsn, role="test") as conn:
        empty.execute(f"revoke create on database {conn.info.dbname} from {conn.info.user}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            migrate(conn)
    assert _schemas(empty) == 0
