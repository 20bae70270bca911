"""What waits survives a dump, a promotion and a held snapshot; status and doctor know of it."""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import psycopg
import pytest
from psycopg import Connection, IsolationLevel

import gapless
from gapless import Published
from gapless.cli.main import main
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.retention.chunks import (
    HistoryRetention,
    Retention,
    apply_retention,
    set_retention,
)
from gapless.features.scheduled.later import Promoter
from gapless.features.scheduled.schedules import Schedule, add_schedule
from gapless.features.scheduled.section import Later
from gapless.features.server.server import throwaway_cluster
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import Topic, ensure_topic
from gapless.ops.doctor.rounds import diagnose
from gapless.status import snapshot
from support.clients import pg_dump, psql
from support.clock import shift, stop_at
from support.log import assert_gapless, placed, tags
from support.plans import pages
from support.standby import copy_of, promote

MANY = 20_000
FILL = (
    "insert into gapless.scheduled (deliver_at, timeline, topic_id, event_type, payload, xid)"
    " select now() + %s * interval '1 s' + n * interval '1 us', 1, 1, n::text, '1',"
    " (n / 10 + 1000000)::text::xid8 from generate_series(1, %s) n"
)


@pytest.fixture
def new_server(server_dsn: str) -> Iterator[str]:
    with throwaway_cluster({}) as cluster:
        dsn = cluster.dsn()
        with psycopg.connect(server_dsn) as here, psycopg.connect(dsn, autocommit=True) as there:
            for role in ("producer", "consumer", "operator", "condition"):
                there.execute(f"create role gapless_{role} nologin".encode())
            if here.info.user != there.info.user:
                there.execute(f"create role {here.info.user} superuser".encode())
        yield dsn


@pytest.mark.long
def test_a_dump_keeps_what_waits(dsn: str, conn: Connection, topic: Topic, new_server: str) -> None:
    """Restored, it waits as before, comes once, and ids and due times go on."""
    stop_at(conn, "2026-05-01 12:00Z")
    add_schedule(conn, Schedule(name="s", topic="outbox", cron="@hourly"))
    shift(conn, 0)
    with conn.transaction():
        for n in range(3):
            publish(conn, "outbox", n, key="k", event_type=f"a{n}", deliver_in=3600)
    cancelled = publish(conn, "outbox", 1, event_type="b", deliver_in=3600, dedupe_key="k")
    assert isinstance(cancelled, Published)
    psql(new_server, pg_dump(dsn))
    with connect(new_server, role="test") as there:
        assert there.execute("select next_due from gapless.schedule").fetchone() == (
            conn.execute("select next_due from gapless.schedule").fetchone()
        )
        there.execute("select gapless.pause_schedule('s')")
        assert gapless.cancel(there, cancelled.scheduled_ids[0])
        again = publish(there, "outbox", 1, event_type="c", deliver_in=3600)
        assert isinstance(again, Published)
        assert again.scheduled_ids > cancelled.scheduled_ids
        shift(there, 3601)
        Promoter().promote_all(there)
        sequence(there)
        assert sorted(map(str, tags(placed(there)))) == ["a0", "a1", "a2", "c"]
        (events,) = (run for run in placed(there).values() if any(each.tag == "a0" for each in run))
        ends = [each.ends_unit for each in events if each.tag in ("a0", "a1", "a2")]
        assert ends == [False, False, True]


@pytest.mark.long
@pytest.mark.chaos
def test_a_promoted_standby_goes_on_with_what_waits() -> None:
    """What it had is delivered once there; transaction_ids carry the timeline on which it was."""
    with throwaway_cluster({}) as old:
        with psycopg.connect(old.dsn(), autocommit=True) as conn:
            migrate(conn)
            create_chunks(conn)
            ensure_topic(conn, "orders", partitions=1)
            first = publish(conn, "orders", 1, event_type="before", deliver_in=3600)
        old.stop("fast")
        copy = copy_of(old)
        copy.start()
        try:
            promote(copy)
            with psycopg.connect(copy.dsn(), autocommit=True) as conn:
                second = publish(conn, "orders", 1, event_type="after", deliver_in=3600)
                assert first != second
                shift(conn, 3601)
                Promoter().promote_all(conn)
                sequence(conn)
                Promoter().promote_all(conn)
                sequence(conn)
                assert tags(placed(conn)) == ["before", "after"]
                ids = conn.execute(
                    "select transaction_id from gapless.outbox_message_t order by id"
                ).fetchall()
                assert [row[0] for row in ids] == [first, second]
        finally:
            copy.stop("immediate")


class TestHeldSnapshot:
    @pytest.mark.long
    def test_a_look_does_not_walk_what_was_promoted(
        self, dsn: str, conn: Connection, topic: Topic
    ) -> None:
        """Dead rows stay at the head of the index; a look begins behind them."""
        conn.execute(FILL, [-10, MANY])
        conn.execute(FILL, [3600, 10])
        promoter = Promoter()
        with psycopg.connect(dsn) as holder:
            holder.isolation_level = IsolationLevel.REPEATABLE_READ
            holder.execute("select count(*) from gapless.scheduled")
            while promoter.promote(conn):
                pass
            whole = pages(conn, "select gapless.promote()")
            hinted = pages(conn, "select gapless.promote(1000, now() + interval '1 hour')")
        assert hinted * 10 < whole, (hinted, whole)


@pytest.mark.long
def test_many_due_at_once_do_not_keep_back_what_is_published(
    conn: Connection, topic: Topic
) -> None:
    """A turn promotes 1000 at most: what is published meanwhile is in the run before the next."""
    conn.execute(FILL, [-10, MANY])
    promoter = Promoter()
    turns, waited_s = 0, 0.0
    while True:
        publish(conn, "outbox", 1, event_type="now")
        began_s = perf_counter()
        assert sequence(conn) >= 1
        waited_s = max(waited_s, perf_counter() - began_s)
        promoted = promoter.promote(conn)
        assert promoted <= 1010
        if not promoted:
            break
        turns += 1
    assert turns >= MANY / 1010
    log = placed(conn)
    assert_gapless(log)
    assert sum(len(each) for each in log.values()) == MANY + turns + 1


def test_retention_leaves_what_waits_alone(conn: Connection, topic: Topic) -> None:
    set_retention(conn, "outbox", Retention(keep_s=1.0))
    publish(conn, "outbox", 1, event_type="a", deliver_in=3600)
    apply_retention(conn, HistoryRetention(letters_s=1, audit_s=1))
    assert conn.execute("select count(*) from gapless.scheduled").fetchone() == (1,)


class TestTold:
    def test_status_counts_it(self, conn: Connection, topic: Topic) -> None:
        assert waiting(conn).scheduled == 0
        publish(conn, "outbox", 1, deliver_in=10)
        add_schedule(conn, Schedule(name="s", topic="outbox", cron="@yearly"))
        now = waiting(conn)
        assert (now.scheduled, now.schedules, now.late_s) == (1, 1, 0.0)
        shift(conn, 100)
        assert waiting(conn).late_s == pytest.approx(90, abs=20)
        assert [each.remedy for each in waiting(conn).problems()] == ["gapless doctor says why"]

    @pytest.mark.long
    @pytest.mark.parametrize("trouble", ["nobody", "topic", "zone"])
    def test_doctor_says_what_is_wrong(
        self, dsn: str, conn: Connection, topic: Topic, trouble: str
    ) -> None:
        publish(conn, "outbox", 1, deliver_in=10)
        add_schedule(conn, Schedule(name="s", topic="outbox", cron="@yearly"))
        assert _later(dsn) == [("ok", "1 event for later, 1 schedule: all in time")]
        if trouble == "nobody":
            shift(conn, 100)
            ((level, text),) = _later(dsn)
            assert (level, "no supervisor gives offsets" in text) == ("FAIL", True)
        elif trouble == "topic":
            conn.execute("delete from gapless.topic")
            found = _later(dsn)
            assert ("warning", "1 event for later are of topics that are gone") in found
            assert ("FAIL", "schedule s: topic 1 is gone") in found
        else:
            conn.execute("update gapless.schedule set zone = 'Gone/Away'")
            stop_at(conn, "2100-01-01 00:00Z")
            Promoter().promote_all(conn)
            shift(conn, 0)
            assert any("Gone/Away" in text for level, text in _later(dsn) if level == "FAIL")


def waiting(conn: Connection) -> Later:
    """Return what status says of all that waits."""
    (row,) = snapshot(conn).of(Later)
    return row


def _later(dsn: str) -> list[tuple[str, str]]:
    return [(each.level, each.text) for each in diagnose(dsn) if each.name == "later"]


class TestCommands:
    @pytest.fixture
    def run(self, dsn: str, topic: Topic, capsys: pytest.CaptureFixture[str]) -> Any:
        def call(*words: str) -> tuple[int, str, str]:
            code = main([*words, "--dsn", dsn])
            out = capsys.readouterr()
            return code, out.out, out.err

        return call

    @pytest.mark.long
    def test_publish_list_cancel(self, run: Any) -> None:
        code, _, err = run("publish", "outbox", "1", "--in", "1h", "--type", "a")
        assert (code, "gapless later cancel 1" in err) == (0, True)
        assert run("publish", "outbox", "1", "--at", "2100-01-01T00:00Z")[0] == 0
        code, out, _ = run("later")
        assert (code, len(out.splitlines())) == (0, 3)
        assert run("later", "cancel", "1")[1] == "cancelled 1\n"
        assert run("later", "cancel", "1")[1].startswith("nothing to do: 1 is in the log")
        code, out, _ = run("later", "list", "--json")
        assert '"scheduled_id": 2' in out

    def test_lines_have_a_time_of_their_own(self, run: Any, tmp_path: Any) -> None:
        path = tmp_path / "events.jsonl"
        path.write_text(
            '{"payload": 1, "deliver_in": 60}\n{"payload": 2, "deliver_at": "2100-01-01T00:00Z"}\n'
            '{"payload": 3}\n'
        )
        assert run("publish", "outbox", "--file", str(path))[0] == 0
        assert len(run("later")[1].splitlines()) == 3

    @pytest.mark.long
    def test_schedules(self, run: Any) -> None:
        code, out, _ = run("schedule", "add", "n", "outbox", "--every", "1d", "--start",
                           "2100-01-01T00:00Z")  # fmt: skip
        assert (code, out) == (
            0, "schedule n publishes into outbox, next at 2100-01-01T00:00:00.000Z\n",
        )  # fmt: skip
        assert "1 day" in run("schedule")[1]
        assert run("schedule", "pause", "n")[1] == "paused n\n"
        assert run("schedule", "pause", "n")[1] == "nothing to do: n is paused\n"
        assert run("schedule", "resume", "n")[1] == "resumed n\n"
        assert run("schedule", "run", "n")[0] == 0
        assert run("schedule", "remove", "n", "--json")[1] == '{"name": "n", "changed": true}\n'


class TestConfiguration:
    def _init(self, dsn: str, folder: Any, text: str, capsys: Any) -> tuple[int, str]:
        path = folder / "gapless.yml"
        path.write_text(text)
        code = main(["init", "--config", str(path), "--dsn", dsn])
        out = capsys.readouterr()
        return code, out.out + out.err

    def test_it_is_applied(self, dsn: str, conn: Connection, topic: Topic, tmp_path: Any,
                           capsys: Any, monkeypatch: Any) -> None:  # fmt: skip
        monkeypatch.setenv("FULL", "true")
        text = """
schedules:
  nightly:
    topic: outbox
    cron: "0 3 * * *"
    zone: ${zone:Europe/Berlin}
    payload: '{"full": ${full:false}}'
"""
        code, out = self._init(dsn, tmp_path, text, capsys)
        assert code == 0
        assert "schedule nightly is as the configuration says" in out
        row = conn.execute("select zone, payload from gapless.schedule").fetchone()
        assert row == ("Europe/Berlin", {"full": True})
        assert "nothing to do" in self._init(dsn, tmp_path, text, capsys)[1]

    @pytest.mark.writes_nothing
    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("schedules: 1", "line 1: schedules must be names"),
            ("schedules: [a]", "line 1: schedules must be names"),
            ("schedules:\n  a: 1", "line 2: schedules.a: must have fields"),
            ("schedules:\n  a: {cron: '@daily'}", "line 2: schedules.a: names no topic"),
            ("schedules:\n  a: {topic: outbox, corn: x}", "unknown field 'corn'"),
            ("schedules:\n  a: {topic: outbox, payload: {b: 1}}", "payload must be text"),
            ("schedules:\n  a: {topic: outbox, cron: '${none}'}", "${none} has no value"),
            ("schedules:\n  a: {topic: outbox, cron: x}\n  a: {}", "was already set"),
            ("schedules: &a\n  b: *a", "schedules.b: unknown field 'b'"),
            ("schedules:\n  b: &b {topic: *b}", "topic must be text"),
            ("a: &a [x,x]\nb: &b [*a,*a]\nschedules:\n  c: {topic: *b}", "must be text"),
        ],
    )
    def test_what_makes_no_sense(self, dsn: str, topic: Topic, tmp_path: Any, capsys: Any,
                                 text: str, says: str) -> None:  # fmt: skip
        code, out = self._init(dsn, tmp_path, text, capsys)
        assert code == 2
        assert says in out
        assert len(out.splitlines()) == 1
