"""gapless in Django: publish through its connections, the ORM in a handler, migrate, the admin."""

from __future__ import annotations

import datetime as dt
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, connections, models, transaction
from django.test import Client
from psycopg import AsyncConnection, Connection

import gapless
import gapless.django
from gapless import testing
from gapless.consume.unit import Unit
from gapless.errors import UsageError

MADE = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)


class Bill(models.Model):
    n = models.IntegerField(primary_key=True)
    what = models.JSONField(default=dict)
    made = models.DateTimeField(default=MADE)

    class Meta:
        app_label = "shop"
        db_table = "bill"


@pytest.fixture
def shop(project: str, conn: Connection) -> str:
    testing.install(project, topics={"orders": 1, "mails": 1})
    conn.execute("create table bill (n int primary key, what jsonb, made timestamptz)")
    return project


def bills(conn: Connection) -> list[int]:
    return [row[0] for row in conn.execute("select n from bill order by n")]


def mails(conn: Connection) -> list[Any]:
    return [event.payload for event in testing.published(conn, "mails")]


class TestPublish:
    def test_it_commits_with_what_was_written_beside_it(self, shop: str, conn: Connection) -> None:
        with transaction.atomic():
            gapless.publish(connection, "mails", 1, key="x")
            Bill.objects.create(n=1)
            assert mails(conn) == []
        assert (mails(conn), bills(conn)) == ([1], [1])

    def test_it_is_rolled_back_with_it(self, shop: str, conn: Connection) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Bill.objects.create(n=1)
            gapless.publish(connections["default"], "mails", 1)
            raise ZeroDivisionError
        assert (mails(conn), bills(conn)) == ([], [])

    def test_it_is_gone_with_the_savepoint_it_was_made_in(
        self, shop: str, conn: Connection
    ) -> None:
        with transaction.atomic():
            gapless.publish(connection, "mails", 1)
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                gapless.publish(connection, "mails", 2)
                raise ZeroDivisionError
            with transaction.atomic():
                gapless.publish(connection, "mails", 3)
        assert mails(conn) == [1, 3]

    def test_many_are_one_transaction_in_autocommit_too(self, shop: str, conn: Connection) -> None:
        gapless.publish(connection, "mails", [gapless.NewEvent(payload=n) for n in range(500)])
        assert len(mails(conn)) == 500
        xids = conn.execute("select count(distinct xid) from gapless.outbox_message_t").fetchone()
        assert xids == (1,)

    def test_a_transaction_that_has_to_be_rolled_back_takes_nothing(
        self, shop: str, conn: Connection
    ) -> None:
        with pytest.raises(transaction.TransactionManagementError), transaction.atomic():
            with pytest.raises(IntegrityError), transaction.atomic(savepoint=False):
                Bill.objects.create(n=1)
                Bill.objects.create(n=1)
            gapless.publish(connection, "mails", 1)
        assert mails(conn) == []

    def test_wait_for(self, shop: str) -> None:
        call_command("gapless", "groups", "create", "g", "mails")
        transaction_id = gapless.publish(connection, "mails", 1)
        with pytest.raises(gapless.WaitError, match="sequencer"):
            gapless.wait_for(connection, "g", transaction_id, 0)

    def test_another_database_is_refused(self, shop: str) -> None:
        with pytest.raises(UsageError, match="connection 'lite' is sqlite: PostgreSQL is needed"):
            gapless.publish(connections["lite"], "mails", 1)
        with pytest.raises(UsageError, match=r'take one of them: connections\["default"\]'):
            gapless.publish(connections, "mails", 1)


def run(dsn: str, function: Any) -> testing.Drained:
    return testing.drain(dsn, gapless.handler(topic="orders", group="g")(function))


class TestOrm:
    @pytest.mark.long
    def test_what_it_writes_commits_with_the_offset(self, shop: str, conn: Connection) -> None:
        for n in (1, 2):
            gapless.publish(conn, "orders", {"n": n})
        xids = set()

        def bill(unit: Unit, conn: Connection[Any]) -> None:
            for event in unit:
                with gapless.django.on(conn):
                    made = Bill.objects.create(n=event.payload["n"], what={"a": [1]})
                    gapless.publish(connection, "mails", made.n)
            xids.add(conn.execute("select pg_current_xact_id()::text").fetchone())

        assert run(shop, bill).dead == 0
        assert (bills(conn), len(xids), mails(conn)) == ([1, 2], 1, [1, 2])
        assert Bill.objects.get(n=1).what == {"a": [1]}  # its own connection is back
        causes = conn.execute(
            "select cause from gapless.outbox_message_t where cause is not null order by id"
        )
        assert [row[0] for row in causes] == ["g/orders/0@1", "g/orders/0@2"]

    def test_who_speaks_to_its_driver_cannot_end_the_transaction(
        self, shop: str, conn: Connection
    ) -> None:
        gapless.publish(conn, "orders", 1)

        def bill(unit: Unit, conn: Connection[Any]) -> None:
            with gapless.django.on(conn):
                Bill.objects.create(n=1)
                connections["default"].connection.commit()
                connections["default"].connection.close()

        assert run(shop, bill).dead == 0
        assert bills(conn) == [1]

    def test_one_that_raises_is_undone(self, shop: str, conn: Connection) -> None:
        gapless.publish(conn, "orders", 1)

        def bill(unit: Unit, conn: Connection[Any]) -> None:
            with gapless.django.on(conn):
                Bill.objects.create(n=1)
            raise ValueError

        assert run(shop, bill).dead == 1
        assert bills(conn) == []

    def test_a_block_that_raises_undoes_what_it_wrote(self, shop: str, conn: Connection) -> None:
        gapless.publish(conn, "orders", 1)

        def bill(unit: Unit, conn: Connection[Any]) -> None:
            with pytest.raises(IntegrityError), gapless.django.on(conn):
                Bill.objects.create(n=1)
                with transaction.atomic():
                    Bill.objects.create(n=2)
                Bill.objects.create(n=1)
            with gapless.django.on(conn):
                Bill.objects.create(n=3)

        assert run(shop, bill).dead == 0
        assert bills(conn) == [3]

    def test_times_and_json_are_as_django_reads_them(self, shop: str, conn: Connection) -> None:
        conn.execute("do $$ begin execute format('alter database %I set timezone = ''Asia/Tokyo''',"
                     " current_database()); end $$")  # fmt: skip
        gapless.publish(conn, "orders", 1)
        read: list[Any] = []
        zones: list[Any] = []

        def bill(unit: Unit, conn: Connection[Any]) -> None:
            with gapless.django.on(conn):
                Bill.objects.create(n=1, what={"a": None}, made=MADE)
                read.extend(Bill.objects.values_list("what", "made"))
                read.append(Bill.objects.filter(made=MADE, what__a=None).count())
            zones.append(conn.execute("show timezone").fetchone())

        assert run(shop, bill).dead == 0
        assert read == [({"a": None}, MADE), 1]
        assert zones == [("Asia/Tokyo",)]
        assert conn.execute("select made from bill").fetchone() == (MADE,)

    def test_callbacks_after_the_commit_are_refused(self, shop: str, conn: Connection) -> None:
        gapless.publish(conn, "orders", 1)

        def bill(unit: Unit, conn: Connection[Any]) -> None:
            with gapless.django.on(conn):
                transaction.on_commit(lambda: None)

        assert run(shop, bill).dead == 1
        reason = conn.execute("select reason from gapless.dead_letter").fetchone()
        assert reason is not None
        assert "on_commit() in a handler: publish an event instead" in reason[0]

    def test_what_is_kept_of_it_leads_nowhere(self, shop: str, conn: Connection) -> None:
        for n in (1, 2):
            gapless.publish(conn, "orders", n)
        kept: list[Any] = []

        def bill(unit: Unit, conn: Connection[Any]) -> None:
            if kept:
                with pytest.raises(psycopg.OperationalError):
                    kept[0].connection.execute("insert into bill values (99)")
            with gapless.django.on(conn):
                kept.append(connections["default"])

        assert run(shop, bill).dead == 0
        assert bills(conn) == []

    def test_who_cannot_have_it_is_told(self, shop: str, conn: Connection) -> None:
        gapless.publish(conn, "orders", 1)
        said: list[str] = []

        async def bill(unit: Unit, conn: AsyncConnection[Any]) -> None:
            with pytest.raises(UsageError) as told, gapless.django.on(conn):  # type: ignore[arg-type]
                pass
            said.append(str(told.value))

        run(shop, bill)
        assert said == ["on() takes the connection of a plain handler (def), not AsyncConnection"]
        with pytest.raises(UsageError, match="'lite' does not use psycopg 3"):
            with gapless.django.on(conn, using="lite"):
                pass


class TestMigrate:
    @pytest.mark.long
    def test_it_installs_and_upgrades_the_schema(self, empty_project: str) -> None:
        call_command("migrate", verbosity=0)
        with psycopg.connect(empty_project, autocommit=True) as conn:
            assert mails_table(conn)
            conn.execute("drop schema gapless cascade")
            call_command("migrate", verbosity=0)  # no migration is new, gapless is
            assert mails_table(conn)
        call_command("makemigrations", "gapless", check=True, dry_run=True, verbosity=0)

    def test_another_database_is_left_alone(self, project: str) -> None:
        call_command("migrate", database="lite", verbosity=0)
        connections["lite"].close()


def mails_table(conn: Connection) -> bool:
    return conn.execute("select to_regclass('gapless.outbox_message_t')").fetchone() != (None,)


class TestCommand:
    def test_it_is_gapless_with_djangos_database(self, project: str, conn: Connection) -> None:
        call_command("gapless", "topics", "create", "made-by-django")
        names = [row[0] for row in conn.execute("select name from gapless.topic")]
        assert names == ["made-by-django"]

    def test_it_fails_as_gapless_does(
        self, project: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(CommandError, match="gapless nonsense: exit code 2"):
            call_command("gapless", "nonsense")
        assert "there is no command 'nonsense'" in capsys.readouterr().err


@pytest.fixture
def site(empty_project: str) -> Client:
    """A client logged in as a superuser, and two dead units."""
    from django.contrib.auth.models import User

    call_command("migrate", verbosity=0)
    testing.install(empty_project, topics={"orders": 1})
    client = Client()
    client.force_login(User.objects.create_superuser("ada"))
    for n in (1, 2):
        gapless.publish(connection, "orders", {"n": n}, key="AA")

    def refuse(unit: Unit, conn: Connection[Any]) -> None:
        raise ValueError("no such customer")

    assert run(empty_project, refuse).dead == 2
    return client


LIST = "/admin/gapless/setasideunit/"
PLACE = "g/orders/0@1"


def act(site: Client, action: str, **form: str) -> str:
    form = {"action": action, "_selected_action": PLACE, **form}
    return site.post(LIST, form, follow=True).content.decode()


def states() -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "select state, coalesce(redriven_by, discarded_by), discard_reason"
            " from gapless.dead_letter order by first_offset"
        )
        return list(cursor.fetchall())


class TestAdmin:
    @pytest.mark.long
    def test_it_shows_what_was_set_aside(self, site: Client) -> None:
        listed = site.get(LIST).content.decode()
        assert PLACE in listed
        assert "no such customer" in listed
        found = site.get(LIST, {"q": "0@2", "state": "dead"}).content.decode()
        assert "g/orders/0@2" in found
        assert PLACE not in found
        shown = site.get(f"{LIST}g_2Forders_2F0_401/change/").content.decode()
        assert "ValueError" in shown
        assert "&quot;key&quot;: &quot;AA&quot;" in shown

    @pytest.mark.long
    def test_redrive(self, site: Client) -> None:
        assert "1 units: asked" in act(site, "redrive")
        assert states() == [("waiting", "ada", None), ("dead", None, None)]

    @pytest.mark.long
    def test_discard_wants_a_reason(self, site: Client) -> None:
        assert "must say something" in act(site, "discard")
        assert states()[0][0] == "dead"
        assert "1 units: discarded" in act(site, "discard", reason="a test")
        assert states() == [("discarded", "ada", "a test"), ("dead", None, None)]

    @pytest.mark.long
    def test_each_has_its_permission(self, site: Client) -> None:
        from django.contrib.auth.models import Permission, User

        clerk = User.objects.create_user("clerk", is_staff=True)
        clerk.user_permissions.add(Permission.objects.get(codename="view_setasideunit"))
        site.force_login(clerk)
        assert site.get(LIST).status_code == 200
        act(site, "redrive")
        assert states()[0][0] == "dead"
        clerk.user_permissions.add(Permission.objects.get(codename="redrive_setasideunit"))
        act(site, "discard", reason="a test")
        assert states()[0][0] == "dead"
        act(site, "redrive")
        assert states()[0][0] == "waiting"
