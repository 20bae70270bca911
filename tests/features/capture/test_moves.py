"""A captured table in another database, and under an owner of gapless that is no superuser."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from features.capture.tables import kinds, published
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.capture.ops import capture_table, list_captures, mend_capture, release_capture
from gapless.log.topics import Topic, ensure_topic
from gapless.ops.install import drop_schema
from support.clients import pg_dump, psql


@pytest.mark.long
def test_dumped_and_restored(conn: Connection, dsn: str, empty_dsn: str, topic: Topic) -> None:
    """Tables and columns have other numbers there; names that were changed meet no other column."""
    conn.execute("create table public.t (gone int, id int primary key, was text, n int)")
    conn.execute("alter table public.t drop gone")
    capture_table(conn, "public.t", "outbox", key="{id}/{was}", columns=["id", "was"])
    conn.execute("alter table public.t rename was to now")
    dumped = pg_dump(dsn)
    psql(empty_dsn, dumped)
    with connect(empty_dsn, role="test") as there:
        there.execute("insert into public.t values (1, 'x', 7)")
        assert published(there) == [("1/", "insert", {"id": 1}, None)]
        (found,) = list_captures(there)
        assert found.problem == 'column "was" of columns is gone; column "was" of key is gone'
        assert found.remedy == "gapless capture remove public.t, then add it anew"
    mend_capture(conn, "public.t")
    assert list_captures(conn)[0].key == "{id}/{now}"


@pytest.mark.long
def test_the_same_names_after_a_restore(
    conn: Connection, dsn: str, empty_dsn: str, topic: Topic
) -> None:
    conn.execute("create table public.t (gone int, id int primary key, n int)")
    conn.execute("alter table public.t drop gone")
    capture_table(conn, "public.t", "outbox", key="{n}", columns=["id", "n"])
    psql(empty_dsn, pg_dump(dsn))
    with connect(empty_dsn, role="test") as there:
        there.execute("insert into public.t values (1, 7)")
        assert published(there) == [("7", "insert", {"id": 1, "n": 7}, None)]
        assert list_captures(there)[0].problem is None
        assert release_capture(there, "public.t")


@pytest.fixture
def plain(role: Callable[..., str], empty_dsn: str) -> str:
    """The DSN of a role that owns the database and gapless, and is no superuser."""
    login = role()
    user, database = (conninfo_to_dict(each) for each in (login, empty_dsn))
    owner = sql.Identifier(str(user["user"]))
    with psycopg.connect(empty_dsn, autocommit=True) as admin:
        named = sql.Identifier(str(database["dbname"]))
        admin.execute(sql.SQL("alter database {} owner to {}").format(named, owner))
        # Roles are of the cluster, and dropped before its databases are.
    return make_conninfo(login, dbname=str(database["dbname"]))


def test_an_owner_that_is_no_superuser(
    plain: str, empty_dsn: str, role: Callable[..., str]
) -> None:
    """It captures a table of its own; what somebody else may write goes through it."""
    other = make_conninfo(role(), dbname=str(conninfo_to_dict(empty_dsn)["dbname"]))
    try:
        with connect(plain, role="owner") as owner:
            migrate(owner)
            ensure_topic(owner, "outbox", partitions=2)
            owner.execute("create schema shop")
            owner.execute("create table shop.t (id int primary key)")
            capture_table(owner, "shop.t", "outbox")
            owner.execute("grant usage on schema shop to public")
            owner.execute("grant insert on shop.t to public")
            with connect(other, role="writer") as writer:
                writer.execute("insert into shop.t values (1)")
            assert kinds(owner) == [("1", "insert")]
            drop_schema(owner)
            owner.execute("insert into shop.t values (2)")
    finally:
        with psycopg.connect(empty_dsn, autocommit=True) as admin:
            named = sql.Identifier(str(conninfo_to_dict(empty_dsn)["dbname"]))
            user = sql.Identifier(str(conninfo_to_dict(plain)["user"]))
            admin.execute(sql.SQL("alter database {} owner to current_user").format(named))
            admin.execute(sql.SQL("drop owned by {} cascade").format(user))
