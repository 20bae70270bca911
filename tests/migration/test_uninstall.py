"""uninstall leaves nothing: what the catalogs had before init, they have again."""

from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.uninstall import uninstall
from gapless.errors import SchemaError
from gapless.features.attach.ops import AttachRequest, attach_table
from gapless.features.attach.switch import switch_group
from gapless.features.capture.ops import capture_table
from gapless.features.classic.ops import notify_classic, show_classic
from gapless.features.filters.subscriptions import subscribe
from gapless.features.gateway.keys import create_key
from gapless.features.scheduled.schedules import Schedule, add_schedule
from gapless.features.server.server import throwaway_cluster
from gapless.features.webhooks.ops import add_webhook
from gapless.log.publish import publish
from gapless.log.topics import ensure_topic
from gapless.ops.groups import create_group
from gapless.ops.install import drop_schema, install_schema
from gapless.ops.place import GroupPlace

ROLES = ("gapless_condition", "gapless_consumer", "gapless_operator", "gapless_producer")
# Everything that has a name, in this database and in the cluster, and who may do what with it.
CATALOGS = {
    "class": "select oid, relname, relkind::text, relacl::text, relhastriggers from pg_class",
    "proc": "select oid, proname, proacl::text from pg_proc",
    "trigger": "select oid, tgname, tgrelid from pg_trigger",
    "event trigger": "select oid, evtname from pg_event_trigger",
    "type": "select oid, typname from pg_type",
    "namespace": "select oid, nspname, nspacl::text from pg_namespace",
    "constraint": "select oid, conname from pg_constraint",
    "rewrite": "select oid, rulename, ev_class from pg_rewrite",
    "description": "select objoid, classoid, description from pg_description",
    "default acl": "select oid, defaclacl::text from pg_default_acl",
    "setting": "select setdatabase, setrole, setconfig::text from pg_db_role_setting",
    "extension": "select oid, extname from pg_extension",
    "large object": "select oid, lomowner from pg_largeobject_metadata",
    "publication": "select oid, pubname from pg_publication",
    "slot": "select slot_name, plugin from pg_replication_slots",
    "depend": "select classid, objid, refclassid, refobjid, deptype::text from pg_depend",
    "shared depend": (
        "select dbid, classid, objid, refclassid, refobjid, deptype::text from pg_shdepend"
        " where dbid in (0, (select oid from pg_database where datname = current_database()))"
    ),
    "advisory lock": "select classid, objid from pg_locks where locktype = 'advisory'",
    "role": "select oid, rolname, rolconfig::text from pg_roles",
    "member": "select roleid, member from pg_auth_members",
}


def look(conn: Connection[Any]) -> dict[str, set[tuple[Any, ...]]]:
    return {name: set(conn.execute(text.encode())) for name, text in CATALOGS.items()}


def use_everything(conn: Connection[Any], dsn: str) -> None:
    """Whatever gapless makes outside of its own schema, and what it keeps inside."""
    install_schema(conn)
    ensure_topic(conn, "outbox", partitions=2)
    for group in ("billing", "many"):
        create_group(conn, group, "outbox")
    publish(conn, "outbox", 1)
    capture_table(conn, "public.orders", "outbox")
    attach_table(conn, AttachRequest(table="public.box", topic="outbox"))
    switch_group(conn, "public.box", "old", dsn=dsn, place=1)
    add_webhook(
        conn, "hook", "outbox", "https://example.com/in", secrets=["env:SECRET"], event_types=["a"]
    )
    subscribe(conn, GroupPlace.parse("many/outbox"), "one", match={"a": "$.a"}, params={"a": "b"})
    add_schedule(conn, Schedule(name="tick", topic="outbox", every="1h", payload="1"))
    create_key(conn, "key", ["read:outbox"])
    show_classic(conn, "billing")
    notify_classic(conn, "outbox")
    conn.execute("insert into public.orders values (1)")
    conn.execute("insert into public.box (payload) values ('1')")


def _make_shop(conn: Connection[Any]) -> None:
    """The tables of an application, which has nothing to do with gapless."""
    conn.execute("create table public.orders (id int primary key)")
    conn.execute("create table public.box (id bigserial primary key, key text, payload jsonb)")


@pytest.mark.long
def test_nothing_is_left() -> None:
    """Of a database; and of the cluster, once the last one that has grants for the roles is without gapless."""
    with throwaway_cluster() as cluster, ExitStack() as stack:
        with psycopg.connect(cluster.dsn(), autocommit=True) as admin:
            admin.execute("create database second")
        dsns = [cluster.dsn(), cluster.dsn("second")]
        conns = [stack.enter_context(connect(dsn, role="test")) for dsn in dsns]
        for conn in conns:
            _make_shop(conn)
        before = [look(conn) for conn in conns]
        for conn, dsn in zip(conns, dsns, strict=True):
            use_everything(conn, dsn)
        during = look(conns[0])
        assert {name for name in during if before[0][name] != during[name]} >= {
            "class", "proc", "trigger", "type", "namespace", "rewrite", "depend",
        }  # fmt: skip
        assert [drop_schema(conn) for conn in conns] == [list(ROLES), []]
        for conn, had in zip(conns, before, strict=True):
            flags = {name: rows ^ had[name] for name, rows in look(conn).items()}
            # PostgreSQL keeps the flag of a table that had triggers until it is vacuumed.
            flags["class"] = {row for row in flags["class"] if row[1] not in ("orders", "box")}
            assert {name: rows for name, rows in flags.items() if rows} == {}
            conn.execute("insert into public.orders values (2)")
            conn.execute("insert into public.box (payload) values ('2')")


def test_a_table_of_somebody_else_is_not_dropped(conn: Connection) -> None:
    conn.execute("create table gapless.outbox_message_1_5 (id int)")  # as empty_default_chunk()
    conn.execute("create table gapless.invoices (id int)")
    conn.execute("create view gapless.paid as select * from gapless.invoices")
    with pytest.raises(SchemaError, match=r'2 tables or views .*"invoices", .*"paid"; move'):
        uninstall(conn)
    conn.execute("alter table gapless.invoices set schema public")
    conn.execute("alter view gapless.paid set schema public")
    uninstall(conn)
    assert conn.execute("select count(*) from public.paid").fetchone() == (0,)


@pytest.mark.long
def test_a_role_that_others_use_stays(conn: Connection) -> None:
    """Programs log in with it, or another database was installed with it."""
    name = f"gapless_test_{uuid4().hex[:12]}"
    conn.execute(f"create role {name} login in role gapless_producer")
    try:
        assert "gapless_producer" in uninstall(conn)
        member = "select pg_has_role(%s, 'gapless_producer', 'member')"
        assert conn.execute(member, [name]).fetchone() == (True,)
    finally:
        conn.execute(f"drop role {name}")
