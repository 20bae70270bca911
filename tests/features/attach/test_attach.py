"""An attached table: what was there in the order of its ids, then each row in its transaction (I1 to I5)."""

import threading
from collections.abc import Callable
from dataclasses import replace
from time import monotonic, sleep

import psycopg
import pytest
from psycopg import Connection

from features.attach.outbox import MADE, WISH, attach, everything, fill, log, writer
from gapless.db.connect import connect
from gapless.errors import GaplessError, RefusedError
from gapless.features.attach import ops
from gapless.features.attach.ops import (
    attach_table,
    detach_table,
    list_attachments,
    mend_attachment,
    plan_attachment,
)
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from gapless.ops.install import drop_schema
from support.patience import patience


@pytest.fixture
def box(conn: Connection, topic: Topic) -> Connection:
    conn.execute(MADE)
    return conn


def problem(conn: Connection) -> str | None:
    (found,) = list_attachments(conn)
    assert (found.problem is None) == (found.remedy is None)
    return found.problem


class TestRows:
    def test_those_that_were_there_then_those_that_come(self, box: Connection) -> None:
        fill(box, 1, 50)
        told: list[int] = []
        done = attach(box, batch_rows=8, tell=told.append)
        assert (done.copied, done.late) == (50, 0)
        assert told == [8, 16, 24, 32, 40, 48, 50]
        fill(box, 51, 60)
        parts = log(box)
        assert sorted(each for part in parts for each in part) == list(range(1, 61))
        assert all(part == sorted(part) for part in parts), "in the order of their ids"
        assert problem(box) is None

    def test_units(self, box: Connection) -> None:
        """A row that was there is a unit; those of a transaction are one (I5)."""
        fill(box, 1, 3, customers=1)
        attach(box)
        with box.transaction():
            fill(box, 4, 5, customers=1)
            fill(box, 6, 6, customers=1)
        sequence(box)
        ends = box.execute(
            "select string_agg(unit_ends::text, '' order by base_offset) from gapless.log_segment"
        ).fetchone()
        assert ends == ("111001",)

    def test_a_rolled_back_row_is_none(self, box: Connection) -> None:
        attach(box)
        with box.transaction(force_rollback=True):
            fill(box, 1, 1)
        fill(box, 2, 2)
        assert everything(box) == [2]


class TestGaps:
    @pytest.mark.long
    def test_a_missing_id_that_may_come_is_waited_for(self, box: Connection, dsn: str) -> None:
        """It comes in its order, before what committed after it."""
        fill(box, 1, 3, customers=1)
        with connect(dsn, role="test") as second:
            done = threading.Thread(target=attach, args=(second,))
            with psycopg.connect(dsn) as open_one:
                fill(open_one, 4, 4, customers=1)
                fill(box, 5, 6, customers=1)
                done.start()
                done.join(0.5)
                assert done.is_alive()
            done.join(30)
        fill(box, 7, 7, customers=1)
        assert max(log(box), key=len) == [1, 2, 3, 4, 5, 6, 7]

    def test_it_stops_at_one_that_does_not(self, box: Connection, dsn: str) -> None:
        with writer(dsn, 1) as other:
            fill(box, 2, 9)
            said = rf"a transaction has been writing to public.box for 0 s \(process {other.info.backend_pid}\)"
            with pytest.raises(GaplessError, match=said):
                attach(box, patience_s=0)
            assert everything(box) == []
            assert problem(box) == "it is not copied to its end yet"
        assert attach(box).copied == 9
        assert everything(box) == list(range(1, 10))

    def test_one_that_was_rolled_back_is_no_reason(self, box: Connection) -> None:
        with box.transaction(force_rollback=True):
            fill(box, 0, 0)
        fill(box, 1, 4)
        assert plan_attachment(box, WISH).missing_ids == 0
        with box.transaction(force_rollback=True):
            fill(box, 0, 0)
        fill(box, 5, 5)
        assert plan_attachment(box, WISH).missing_ids == 1
        assert attach(box).copied == 5

    def test_a_low_id_that_comes_late(self, box: Connection) -> None:
        """Drawn by somebody before, inserted while it was copied: it is behind, and not lost."""
        fill(box, 1, 3)
        number = box.execute(
            "select gapless.attach('public.box', 'outbox', null, %s::jsonb, null, false)",
            ['{"key": "customer", "payload": "body"}'],
        ).fetchone()
        assert number is not None
        box.execute("select gapless.copy_attached(%s, 3, 100)", number)
        box.execute("insert into public.box (id, body) values (-5, '0')")
        done = attach(box)
        assert (done.copied, done.late) == (1, 1)
        assert everything(box) == [0, 1, 2, 3]


class TestRepeated:
    def test_nothing_is_copied_twice(self, box: Connection) -> None:
        fill(box, 1, 20)
        attach(box)
        fill(box, 21, 25)
        assert attach(box).copied == 0
        assert everything(box) == list(range(1, 26))

    def test_two_at_once(self, box: Connection, dsn: str) -> None:
        fill(box, 1, 200)
        with connect(dsn, role="test") as other:
            both = [
                threading.Thread(target=attach, args=(each,), kwargs={"batch_rows": 7})
                for each in (box, other)
            ]
            for each in both:
                each.start()
            for each in both:
                each.join(60)
        assert everything(box) == list(range(1, 201))
        assert len(list_attachments(box)) == 1


class TestColumns:
    """The table is altered after it was attached: no statement fails, and no row is lost."""

    def test_a_renamed_one_is_followed(self, box: Connection) -> None:
        fill(box, 1, 1)
        attach(box)
        for old, new in (("customer", "client"), ("body", "doc"), ("id", "no")):
            box.execute(f"alter table public.box rename {old} to {new}".encode())
        box.execute("insert into public.box (client, doc) values ('c2', '2'), ('c3', '3')")
        assert everything(box) == [1, 2, 3]
        keys = "select array_agg(key order by id) from gapless.outbox_message_t"
        assert box.execute(keys).fetchone() == (["c1", "c2", "c3"],)
        said = 'column "id" (id) is called "no" now'
        assert problem(box) == said, "a restore knows columns by their names"
        assert attach(box, replace(WISH, map={"key": "client", "payload": "doc"})).copied == 0
        assert problem(box) is None
        box.execute("alter table public.box rename doc to body")
        assert problem(box) == 'column "doc" (payload) is called "body" now'
        assert mend_attachment(box, "public.box") == 0
        (found,) = list_attachments(box)
        assert (found.id, found.columns["payload"], found.problem) == ("no", "body", None)
        box.execute("insert into public.box (client, body) values ('c4', '4')")
        assert everything(box) == [1, 2, 3, 4]

    def test_a_dropped_one_is_named_and_another_takes_its_place(self, box: Connection) -> None:
        fill(box, 1, 1)
        attach(box)
        box.execute("alter table public.box drop customer, add client text")
        box.execute("insert into public.box (client, body) values ('c2', '2'), ('c3', '3')")
        assert everything(box) == [1]
        (found,) = list_attachments(box)
        assert found.problem == 'column "customer" (key) is gone: nothing is copied'
        assert found.remedy == (
            "gapless attach add public.box outbox --id id --map key=COLUMN,payload=body"
        )
        said = 'column "customer" of public.box is gone, from which the key was copied'
        with pytest.raises(RefusedError, match=said):
            mend_attachment(box, "public.box")
        assert attach(box, replace(WISH, map={"key": "client", "payload": "body"})).late == 2
        box.execute("insert into public.box (client, body) values ('c4', '4')")
        assert everything(box) == [1, 2, 3, 4], "each once"
        assert problem(box) is None
        actions = "select action from gapless.audit order by audit_id"
        assert box.execute(actions).fetchall() == [("attach",), ("map",)]


class TestChanges:
    """Rows that are updated or deleted later: the log has them as they were inserted."""

    def changed(self, conn: Connection, said: str | None) -> None:
        give_up_s = monotonic() + patience(30)
        while problem(conn) != said:  # statistics come a moment later
            assert monotonic() < give_up_s, problem(conn)
            sleep(0.05)

    def test_they_are_named(self, box: Connection) -> None:
        fill(box, 1, 3)
        attach(box)
        assert problem(box) is None
        box.execute("update public.box set body = '9' where id = 1")
        text = "updated or deleted, and the log has a row as it was inserted"
        self.changed(box, f"1 row was {text}")
        box.execute("delete from public.box where id > 1")
        self.changed(box, f"3 rows were {text}")
        (found,) = list_attachments(box)
        assert found.remedy == (
            "gapless attach add public.box outbox --id id --map key=customer,payload=body"
            " --despite-changes, if all had read these rows"
        )
        assert attach(box).copied == 0
        self.changed(box, f"3 rows were {text}")
        attach(box, replace(WISH, despite_changes=True))
        assert problem(box) is None
        fill(box, 4, 4)
        assert everything(box) == [1, 2, 3, 4]


class TestWriters:
    @pytest.mark.long
    def test_a_role_without_any_right_on_gapless(
        self, box: Connection, role: Callable[..., str]
    ) -> None:
        attach(box)
        box.execute("grant insert on public.box to public")
        box.execute("grant usage on sequence public.box_id_seq to public")
        with connect(role(), role="writer") as other:
            fill(other, 1, 2)
        assert everything(box) == [1, 2]

    @pytest.mark.long
    def test_an_error_is_not_the_writer_s(self, box: Connection) -> None:
        """It is noted, named, and what was missed is copied once that is mended."""
        attach(box)
        box.execute(
            "alter table gapless.outbox_message_t add constraint no check (key <> 'c1') not valid"
        )
        fill(box, 1, 1)
        assert everything(box) == []
        assert (problem(box) or "").startswith("1 row was not copied: new row for relation")
        fill(box, 8, 8)
        assert (problem(box) or "").startswith("2 rows were not copied: new row for relation")
        box.execute("alter table gapless.outbox_message_t drop constraint no")
        assert mend_attachment(box, "public.box") == 2
        assert everything(box) == [1, 8]
        assert problem(box) is None

    @pytest.mark.long
    def test_a_busy_table_is_left_alone(self, box: Connection, dsn: str) -> None:
        """The lock is asked for again and again, so that writers never wait long behind it."""
        with writer(dsn, 1):
            with pytest.raises(
                GaplessError, match=r"was never without a writer for 0 s|writing to"
            ):
                attach(box, patience_s=0)
            with connect(dsn, role="test") as third:
                third.execute("set lock_timeout = '1s'")
                fill(third, 2, 2)
        attach(box)
        assert everything(box) == [1, 2]

    @pytest.mark.long
    def test_a_table_in_use_is_not_detached(self, box: Connection, dsn: str) -> None:
        attach(box)
        with (
            writer(dsn, 1),
            pytest.raises(GaplessError, match=r"another session is using public.box"),
        ):
            detach_table(box, "public.box")

    @pytest.mark.long
    def test_uninstall_leaves_nothing(self, box: Connection) -> None:
        attach(box)
        drop_schema(box)
        fill(box, 1, 1)
        left = "select count(*) from pg_trigger where tgname like 'gapless%'"
        assert box.execute(left).fetchone() == (0,)


def test_a_dry_run_changes_nothing(box: Connection) -> None:
    fill(box, 1, 4)
    plan = plan_attachment(box, WISH)
    assert (plan.rows, plan.first_id, plan.last_id, plan.partitions) == (4, 1, 4, 4)
    assert plan.columns == {"key": "customer", "payload": "body"}
    assert list_attachments(box) == []
    assert ops.LOCK_MS_MAX <= 1_000, "writers wait behind it"
    with pytest.raises(RefusedError, match="there is no table"):
        attach_table(box, replace(WISH, table="nope"))
