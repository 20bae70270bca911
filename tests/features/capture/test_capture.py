"""Captured tables: each change is an event, in the transaction that makes it."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import Connection

from features.capture.tables import capture, kinds, published
from gapless.db.connect import connect
from gapless.db.queries import sql_root
from gapless.log.sequence import sequence
from gapless.log.topics import Topic

ORDERS = "create table public.orders (id int primary key, total numeric, note text)"


@pytest.fixture
def orders(conn: Connection, topic: Topic) -> str:
    conn.execute(ORDERS)
    return "public.orders"


class TestEvents:
    def test_a_rolled_back_change_is_none(self, conn: Connection, orders: str) -> None:
        capture(conn, orders)
        with conn.transaction(force_rollback=True):
            conn.execute("insert into public.orders values (1)")
        with conn.transaction():
            conn.execute("insert into public.orders values (2)")
            with pytest.raises(psycopg.errors.UniqueViolation), conn.transaction():
                conn.execute("insert into public.orders values (3), (2)")
        assert kinds(conn) == [("2", "insert")]

    def test_one_transaction_is_one_unit(self, conn: Connection, orders: str) -> None:
        capture(conn, orders)
        with conn.transaction():
            conn.execute("insert into public.orders select g from generate_series(1, 50) g")
            conn.execute("update public.orders set note = 'x'")
        assert sequence(conn) == 100
        found = conn.execute(
            "select count(distinct coalesce(transaction_id::text, xid::text))"
            " from gapless.outbox_message_t"
        ).fetchone()
        assert found == (1,)

    def test_a_key_of_the_template_that_changes(self, conn: Connection, orders: str) -> None:
        conn.execute("insert into public.orders values (1, 5, 'eu')")
        capture(conn, orders, key="{{{note}}}-{id}")
        conn.execute("update public.orders set total = 6")
        conn.execute("update public.orders set note = 'us'")
        conn.execute("update public.orders set note = null")
        assert kinds(conn) == [
            ("{eu}-1", "update"), ("{eu}-1", "delete"), ("{us}-1", "insert"),
            ("{us}-1", "delete"), ("{}-1", "insert"),
        ]  # fmt: skip

    def test_copy_upsert_merge(self, conn: Connection, orders: str) -> None:
        capture(conn, orders)
        with conn.cursor().copy("copy public.orders (id) from stdin") as copy:
            copy.write("1\n2\n")
        conn.execute(
            "insert into public.orders values (2, 7), (3, 8)"
            " on conflict (id) do update set total = excluded.total"
        )
        assert sorted(kinds(conn)) == [
            ("1", "insert"), ("2", "insert"), ("2", "update"), ("3", "insert"),
        ]  # fmt: skip
        if conn.info.server_version >= 150000:
            conn.execute(
                "merge into public.orders o using (values (1), (4)) w (id) on o.id = w.id"
                " when matched then delete when not matched then insert values (w.id)"
            )
            assert sorted(kinds(conn)) == [("1", "delete"), ("4", "insert")]

    def test_a_cascade(self, conn: Connection, orders: str) -> None:
        conn.execute(
            "create table public.line (id int primary key,"
            " o int references public.orders on delete cascade)"
        )
        conn.execute("insert into public.orders values (1)")
        conn.execute("insert into public.line values (7, 1), (8, 1)")
        capture(conn, "public.line")
        conn.execute("delete from public.orders")
        assert kinds(conn) == [("7", "delete"), ("8", "delete")]


class TestColumns:
    def test_generated_and_toasted(self, conn: Connection, topic: Topic) -> None:
        """A large value that an update leaves alone is there all the same."""
        conn.execute(
            "create table public.t (id int primary key, large text,"
            " twice int generated always as (id * 2) stored)"
        )
        conn.execute("alter table public.t alter large set storage external")
        conn.execute("insert into public.t values (1, repeat('x', 100000))")
        capture(conn, "public.t", old="all")
        conn.execute("update public.t set id = 1 where false")
        conn.execute("alter table public.t add n int")
        conn.execute("update public.t set n = 1")
        large = "x" * 100_000
        assert published(conn) == [
            (
                "1",
                "update",
                {"id": 1, "large": large, "twice": 2, "n": 1},
                {"id": 1, "large": large, "twice": 2, "n": None},
            )
        ]

    def test_odd_names(self, conn: Connection, topic: Topic) -> None:
        conn.execute(
            'create table public."Odd % ""Table""" ("The id" int primary key, "a%sb" int, d int,'
            ' r int, n int, o int, e int, "$1" int, "null" int, "qu\'ote" int)'
        )
        table = 'public."Odd % ""Table"""'
        capture(conn, table, key="{The id}/{a%sb}")
        conn.execute(f"insert into {table} values (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)")
        conn.execute(f"update {table} set d = 0")
        row = {"The id": 1, "a%sb": 2, "d": 3, "r": 4, "n": 5, "o": 6, "e": 7, "$1": 8}
        row |= {"null": 9, "qu'ote": 10}
        assert published(conn) == [
            ("1/2", "insert", row, None),
            ("1/2", "update", {**row, "d": 0}, {"d": 3}),
        ]
        assert conn.execute("select gapless.release_capture(%s)", [table]).fetchone() == (True,)

    def test_types(self, conn: Connection, topic: Topic) -> None:
        conn.execute("create type public.mood as enum ('good', 'bad')")
        conn.execute("create type public.pair as (a int, b int)")
        conn.execute("create domain public.age as int")
        conn.execute(
            "create table public.t (id uuid primary key, at timestamptz, j jsonb, m public.mood,"
            " ms public.mood[], p public.pair, a public.age, b bytea, f float8, l int[])"
        )
        capture(conn, "public.t")
        uid = "00000000-0000-0000-0000-00000000000a"
        conn.execute("set timezone = 'Asia/Tokyo'")
        conn.execute(
            "insert into public.t values (%s, '2026-01-01 00:00Z', '{\"a\": null}', 'bad',"
            " '{good}', (1, null), 7, '\\x01', 0.1, '{1,2}')",
            [uid],
        )
        assert published(conn) == [
            (
                uid,
                "insert",
                {
                    "id": uid, "at": "2026-01-01T00:00:00+00:00", "j": {"a": None}, "m": "bad",
                    "ms": ["good"], "p": "(1,)", "a": 7, "b": "\\x01", "f": 0.1, "l": [1, 2],
                },
                None,
            )
        ]  # fmt: skip

    @pytest.mark.few(2)
    @pytest.mark.parametrize("escape", ["\\u0000", "\\ud800", "\\uDFff"])
    @pytest.mark.parametrize("old", ["none", "changed", "all"])
    def test_json_that_is_no_text_is_not_in_the_writer_s_way(
        self, conn: Connection, topic: Topic, old: str, escape: str
    ) -> None:
        """A column of type json keeps what nobody can read; the writer could, and can."""
        conn.execute("create table public.j (id int primary key, n int, doc json)")
        capture(conn, "public.j", old=old)
        conn.execute("insert into public.j values (1, 1, %s)", [f'{{"a": "{escape}"}}'])
        conn.execute("update public.j set n = 2")
        conn.execute("update public.j set doc = '{}'")
        conn.execute("delete from public.j")
        rows = conn.execute(
            "select event_type, headers from gapless.outbox_message_t order by id"
        ).fetchall()
        assert [row[0].rpartition(".")[2] for row in rows] == [
            "insert",
            "update",
            "update",
            "delete",
        ]

    def test_a_key_is_the_same_in_every_session(self, conn: Connection, topic: Topic) -> None:
        conn.execute("create table public.t (day date primary key, n int)")
        capture(conn, "public.t")
        conn.execute("insert into public.t values ('2026-02-01')")
        conn.execute("set datestyle = 'German'")
        conn.execute("update public.t set n = 1")
        assert kinds(conn) == [("2026-02-01", "insert"), ("2026-02-01", "update")]


class TestDdl:
    def test_a_column_comes_and_goes(self, conn: Connection, orders: str) -> None:
        """In one session, which has plans of the table as it was."""
        capture(conn, orders)
        conn.execute("insert into public.orders values (1, 5, 'x')")
        conn.execute("alter table public.orders rename total to amount")
        conn.execute("update public.orders set amount = 6")
        conn.execute("alter table public.orders drop note")
        conn.execute("alter table public.orders add seen bool")
        conn.execute("update public.orders set seen = true")
        conn.execute("alter table public.orders alter amount type text")
        conn.execute("delete from public.orders")
        assert [each[2] or each[3] for each in published(conn)] == [
            {"id": 1, "total": 5, "note": "x"},
            {"id": 1, "amount": 6, "note": "x"},
            {"id": 1, "amount": 6, "seen": True},
            {"id": 1, "amount": "6", "seen": True},
        ]

    def test_columns_that_were_named(self, conn: Connection, orders: str) -> None:
        """One that is renamed is followed; one that is gone is left out."""
        capture(conn, orders, key="{id}/{note}", columns=["id", "total", "note"])
        conn.execute("alter table public.orders rename note to remark")
        conn.execute("insert into public.orders values (1, 5, 'x')")
        conn.execute("alter table public.orders drop remark")
        conn.execute("alter table public.orders rename id to number")
        conn.execute("insert into public.orders values (2, 6)")
        assert published(conn) == [
            ("1/x", "insert", {"id": 1, "total": 5, "remark": "x"}, None),
            ("2/", "insert", {"number": 2, "total": 6}, None),
        ]

    def test_a_renamed_table(self, conn: Connection, orders: str) -> None:
        capture(conn, orders)
        conn.execute("create schema shop")
        conn.execute("alter table public.orders rename to sold")
        conn.execute("alter table public.sold set schema shop")
        conn.execute("insert into shop.sold values (1)")
        assert kinds(conn) == [("1", "insert")]
        assert conn.execute("select table_name, problem from gapless.captures").fetchall() == [
            ("shop.sold", None)
        ]
        assert conn.execute("select gapless.release_capture('shop.sold')").fetchone() == (True,)


class TestPartitions:
    @pytest.fixture
    def parts(self, conn: Connection, topic: Topic) -> str:
        conn.execute("create table public.p (id int primary key, n text) partition by range (id)")
        conn.execute("create table public.p1 partition of public.p for values from (0) to (10)")
        conn.execute("create table public.p2 (n text, gone int, id int not null)")
        conn.execute("alter table public.p2 drop gone")
        conn.execute("alter table public.p attach partition public.p2 for values from (10) to (20)")
        capture(conn, "public.p")
        return "public.p"

    def test_rows_through_the_table_and_directly(self, conn: Connection, parts: str) -> None:
        """Each once; of the same columns in the same order."""
        conn.execute("insert into public.p values (1, 'a'), (11, 'b')")
        conn.execute("insert into public.p2 (id, n) values (12, 'c')")
        assert published(conn) == [
            ("1", "insert", {"id": 1, "n": "a"}, None),
            ("11", "insert", {"id": 11, "n": "b"}, None),
            ("12", "insert", {"id": 12, "n": "c"}, None),
        ]
        conn.execute("update public.p1 set n = 'z'")
        conn.execute("delete from public.p2 where id = 12")
        assert kinds(conn) == [("1", "update"), ("12", "delete")]


class TestRoles:
    def test_a_writer_without_any_right_on_gapless(
        self, conn: Connection, orders: str, role: Callable[..., str]
    ) -> None:
        capture(conn, orders)
        conn.execute("grant insert, update, delete, truncate, select on public.orders to public")
        with connect(role(), role="writer") as writer:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                writer.execute("select count(*) from gapless.topic")
            writer.execute("insert into public.orders values (1)")
            writer.execute("update public.orders set total = 1")
            writer.execute("delete from public.orders")
            writer.execute("truncate public.orders")
        assert [kind for _, kind in kinds(conn)][:3] == ["insert", "update", "delete"]

    def test_the_writers_search_path_counts_for_nothing(
        self, conn: Connection, orders: str, role: Callable[..., str]
    ) -> None:
        """Neither its functions nor its temporary tables are used in place of the server's."""
        capture(conn, orders)
        conn.execute("grant insert on public.orders to public")
        conn.execute("create schema evil")
        conn.execute("grant all on schema evil to public")
        with connect(role(), role="writer") as writer:
            writer.execute("create temp table new_rows (id int)")
            writer.execute(
                "create function evil.concat(int) returns text language sql as $$select 'wrong'$$"
            )
            writer.execute("set search_path = pg_temp, evil, pg_catalog")
            writer.execute("insert into public.orders values (1)")
        assert kinds(conn) == [("1", "insert")]

    def test_a_type_owners_cast_is_not_called(
        self, conn: Connection, topic: Topic, role: Callable[..., str]
    ) -> None:
        """It would run with the rights of gapless: a way up for whoever owns a table."""
        conn.execute("grant create on schema public to public")
        with connect(role(), role="owner") as owner:
            owner.execute("create type public.mine as enum ('a')")
            owner.execute(
                "create function public.evil(public.mine) returns json language sql"
                " as $$select to_json(current_user)$$"
            )
            owner.execute(
                "create cast (public.mine as json) with function public.evil(public.mine)"
            )
            owner.execute(
                "create table public.t (id int primary key, m public.mine, l public.mine[])"
            )
            capture(conn, "public.t")
            owner.execute("insert into public.t values (1, 'a', '{a}')")
            owner.execute("drop cast (public.mine as json)")
        assert published(conn) == [("1", "insert", {"id": 1, "m": "a", "l": "{a}"}, None)]

    def test_capturing_takes_a_right_to_the_table(
        self, conn: Connection, orders: str, role: Callable[..., str]
    ) -> None:
        with (
            connect(role("gapless_operator"), role="operator") as operator,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            capture(operator, orders)
        conn.execute("grant create on schema public to public")
        with connect(role("gapless_consumer"), role="consumer") as consumer:
            consumer.execute("create table public.own (id int primary key)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="function"):
                capture(consumer, "public.own")
        assert conn.execute("select count(*) from gapless.captured").fetchone() == (0,)

    def test_an_operator_captures_its_own(
        self, conn: Connection, topic: Topic, role: Callable[..., str]
    ) -> None:
        conn.execute("grant create on schema public to public")
        with connect(role("gapless_operator"), role="operator") as operator:
            operator.execute(ORDERS)
            capture(operator, "public.orders")
            operator.execute("insert into public.orders values (1)")
            assert operator.execute("select gapless.release_capture('public.orders')").fetchone()
            operator.execute("insert into public.orders values (2)")
        assert kinds(conn) == [("1", "insert")]


class TestLooks:
    """Whoever looks at captures may know nothing of the tables, and waits for nobody."""

    def test_a_schema_that_one_may_not_use(
        self, conn: Connection, topic: Topic, role: Callable[..., str]
    ) -> None:
        conn.execute("create schema hidden")
        conn.execute("create table hidden.t (id int primary key)")
        capture(conn, "hidden.t")
        for table in ("hidden.t", "hidden.gone"):
            with connect(role("gapless_consumer"), role="consumer") as consumer:
                row = consumer.execute("select table_name, problem from gapless.captures")
                assert row.fetchone() == (
                    "hidden.t",
                    None if table == "hidden.t" else "the table is gone",
                )
            conn.execute("drop table if exists hidden.t")

    def test_a_table_that_is_being_altered(self, conn: Connection, topic: Topic, dsn: str) -> None:
        conn.execute("create table public.p (id int primary key) partition by range (id)")
        conn.execute("create table public.p1 partition of public.p for values from (0) to (10)")
        capture(conn, "public.p")
        with psycopg.connect(dsn) as other:
            other.execute("lock table public.p in access exclusive mode")
            conn.execute("set lock_timeout = '100ms'")
            assert conn.execute("select problem from gapless.captures").fetchone() == (None,)


class TestEnds:
    def test_functions_are_replaced_under_it(self, conn: Connection, orders: str) -> None:
        """gapless init of a newer version: triggers stay, and use what is new at once."""
        capture(conn, orders)
        conn.execute("insert into public.orders values (1)")
        for path in sorted((sql_root() / "features/capture/functions").glob("*.sql")):
            conn.execute(path.read_bytes())
        conn.execute("insert into public.orders values (2)")
        assert kinds(conn) == [("1", "insert"), ("2", "insert")]


class TestTriggers:
    def test_the_role_of_replication(self, conn: Connection, orders: str) -> None:
        """As any trigger: not what replication writes, unless it is told to fire always."""
        capture(conn, orders)
        conn.execute("set session_replication_role = replica")
        conn.execute("insert into public.orders values (1)")
        assert kinds(conn) == []
        conn.execute("alter table public.orders enable always trigger gapless_capture_insert")
        conn.execute("insert into public.orders values (2)")
        assert kinds(conn) == [("2", "insert")]
        assert conn.execute("select problem from gapless.captures").fetchone() == (None,)

    def test_a_capture_that_nobody_knows_fails_the_write(
        self, conn: Connection, orders: str
    ) -> None:
        """A write that is published nowhere would be lost without a word."""
        capture(conn, orders)
        conn.execute("delete from gapless.captured")
        with pytest.raises(psycopg.DatabaseError, match="its topic is not known any more"):
            conn.execute("insert into public.orders values (1)")
        capture(conn, orders)
        conn.execute("insert into public.orders values (1)")
        assert kinds(conn) == [("1", "insert")]

    def test_what_is_noted_cannot_be_forgotten_under_its_triggers(
        self, conn: Connection, orders: str
    ) -> None:
        capture(conn, orders)
        with pytest.raises(psycopg.DatabaseError, match="has triggers"):
            conn.execute("select gapless.forget_capture(capture_id) from gapless.captured")
