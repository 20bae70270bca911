"""SQL conditions of subscriptions: what they may be, who is stopped alone, what becomes of its events (I1, I6, I8)."""

import re
import threading
import time
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from gapless import ops
from gapless.consume.drive import Driver
from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.db.queries import query
from gapless.features.filters import conditions
from gapless.log.event import NewEvent
from support.conditions import resume, stops, subscribe, taken_over
from support.patience import bounded_patience
from support.subscriptions import Seen
from support.turn import turn
from support.world import Group, World, make_handler

LARGE = "(e.payload ->> 'total')::numeric > (s.params ->> 'min')::numeric"
SLOW = "factorial((e.payload ->> 'n')::bigint) > 0"  # of 10000 about 0.1 s


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


def totals(world: World, *values: Any, **fields: Any) -> None:
    """Publish an event for each of these, units of one event."""
    world.events(
        NewEvent(payload={"total": each}, transaction_id=uuid4(), **fields) for each in values
    )


def until(holds: str, world: World, driver: Driver) -> None:
    """Take turns until a statement says true."""
    give_up_s = time.monotonic() + bounded_patience(60.0)
    while world.rows(holds) != [(True,)]:
        assert time.monotonic() < give_up_s, holds
        driver.turn()
        time.sleep(0.01)


class TestMatches:
    def test_handler_is_told_who_matched(self, world: World, group: Group) -> None:
        subscribe(group, "ann", LARGE, params={"min": 10})
        subscribe(group, "ben", LARGE, params={"min": 100})
        subscribe(group, "cid", "e.key = 'k' and e.event_type like 'a.%' and s.name = 'cid'")
        totals(world, 5, 50, 500)
        totals(world, 1, key="k", event_type="a.b")
        seen = Seen(group)
        group.drive(seen.handler)
        assert seen.events == [(2, ["ann"]), (3, ["ann", "ben"]), (4, ["cid"])]
        assert group.next_offset() == 5
        forms = "select count(*) from gapless.subscription_form where group_id = %s"
        assert world.value(forms, group.name) == 2

    def test_a_program_that_knows_nothing_of_it_is_refused(
        self, world: World, group: Group
    ) -> None:
        """It would pass what the conditions match."""
        subscribe(group, "ann", LARGE, params={"min": 10})
        totals(world, 50)
        who = group.assignment
        ask = "select * from gapless.claim_kept(%s, %s, 0, %s, %s, 10, 0, null)"
        with pytest.raises(psycopg.Error, match="bring it up to date"):
            world.rows(ask, group.name, world.topic.topic_id, who.epoch, who.token)


class TestStopped:
    @pytest.mark.parametrize("bad", ["1 / (e.payload ->> 'n')::int > 0", LARGE])
    def test_one_that_raises_is_stopped_alone_and_its_events_wait(
        self, world: World, group: Group, bad: str
    ) -> None:
        subscribe(group, "ann", "(e.payload ->> 'total') is not null")
        totals(world, 1, 2)
        seen = Seen(group)
        group.drive(seen.handler)
        subscribe(group, "bad", bad, params={"min": "much"})
        world.events([NewEvent(payload={"total": 3, "n": 0}, transaction_id=uuid4())])
        totals(world, 4)
        group.drive(seen.handler)
        assert seen.events == [(n, ["ann"]) for n in range(1, 5)]
        ((name, offset, reason),) = stops(group)
        assert (name, offset) == ("bad", 3)
        assert reason in (
            "division by zero (SQLSTATE 22012)",
            "invalid input syntax for type numeric (SQLSTATE 22P02)",
        )
        with pytest.raises(psycopg.Error, match=f"it stays stopped, .*{re.escape(reason)}"):
            resume(group, "bad")
        subscribe(group, "bad", "(e.payload ->> 'total')::int = 4")
        assert [row[:2] for row in stops(group)] == [("bad", 3)]
        assert resume(group, "bad") == 1
        assert resume(group, "bad") is None
        taken_over(group)
        totals(world, 4)
        seen.events.clear()
        group.drive(seen.handler)
        assert sorted(seen.events) == [(4, ["bad"]), (5, ["ann", "bad"])]
        assert group.next_offset() == 6

    def test_the_log_says_it_once(
        self, world: World, group: Group, caplog: pytest.LogCaptureFixture
    ) -> None:
        subscribe(group, "bad", LARGE, params={"min": "x"})
        totals(world, 50)
        group.drive()
        (said,) = [each.getMessage() for each in caplog.records if "stopped" in each.getMessage()]
        assert said == (
            f"{group.assignment.partition}: subscriptions stopped: 1, the first one: "
            "invalid input syntax for type numeric (SQLSTATE 22P02)"
        )

    @pytest.mark.long
    def test_one_that_is_slow_is_stopped_alone(
        self, world: World, group: Group, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(conditions, "LIMIT_S", 1.0)
        for n in range(3):
            subscribe(group, f"ann{n}", LARGE, params={"min": 10})
        subscribe(group, "slow", SLOW)
        world.events([NewEvent(payload={"total": 50, "n": 10_000})] * 60)
        seen = Seen(group)
        group.drive(seen.handler)
        assert seen.events == [(n, ["ann0", "ann1", "ann2"]) for n in range(1, 61)]
        ((name, offset, reason),) = stops(group)
        assert (name, offset) == ("slow", 1)
        assert reason == "it takes longer than 1 s for 60 events"
        assert group.conn.execute("show statement_timeout").fetchone() == ("0",)

    @pytest.mark.long
    def test_to_resume_has_a_time_limit(self, world: World, group: Group) -> None:
        """A minute, and 5 s for each thousand events; less where the session has less."""
        subscribe(group, "bad", LARGE, params={"min": "x"})
        totals(world, *[50] * 400)
        group.drive()
        named = {"group": group.name, "topic": world.topic.name, "name": "bad"}
        ask = query("subscriptions", "limit_resume")
        for own, limit in (("0", "62s"), ("2min", "62s"), ("30s", "30s")):
            with world.conn.transaction(force_rollback=True):
                world.conn.execute(f"set local statement_timeout = '{own}'".encode())
                assert world.conn.execute(ask, named).fetchone() == (own, limit)
        place = ops.GroupPlace.parse(f"{group.name}/{world.topic.name}")
        subscribe(group, "bad", LARGE, params={"min": 10})
        with world.conn.transaction():
            world.conn.execute("set local statement_timeout = '2min'")
            assert ops.resume_subscription(world.conn, place, "bad") == 400
            assert world.conn.execute("show statement_timeout").fetchone() == ("2min",)

    @pytest.mark.parametrize(
        ("condition", "says"),
        [
            ("(e.payload ->> 'total')::int > 0", "invalid input syntax for type integer"),
            ("(e.payload ->> 'total')::date is null", "invalid input syntax for type date"),
            ("chr((e.payload ->> 'n')::int) = ''", "requested character too large for encoding"),
            ("(e.payload ->> 'big')::int > 0", "value .. is out of range for type integer"),
            ("(e.payload ->> 'total')::jsonb is null", "invalid input syntax for type json"),
            ("'a' ~ (e.payload ->> 'open')", "invalid regular expression"),
            ("(e.payload ->> 'two')::int > 0", "invalid input syntax for type integer"),
        ],
    )
    def test_a_reason_has_nothing_of_the_payload(
        self, world: World, group: Group, condition: str, says: str
    ) -> None:
        subscribe(group, "bad", condition)
        payload = {
            "total": "4111-SECRET", "n": 41114111, "big": "41114111411141114111",
            "open": "(4111SECRET", "two": 'SECRET" of "4111',
        }  # fmt: skip
        world.events([NewEvent(payload=payload)])
        group.drive()
        ((_, _, reason),) = stops(group)
        assert reason.startswith(f"{says} (SQLSTATE ")
        audited = "select detail::text from gapless.audit where action = 'stop_subscriptions' and group_id = %s"
        for text in (reason, world.value(audited, group.name)):
            assert "SECRET" not in text
            assert "4111" not in text

    def test_what_it_missed_joins_what_waits_already(self, world: World, group: Group) -> None:
        """A unit that failed for others, and waits, is handled for both, once."""
        subscribe(group, "ann", LARGE, params={"min": 10})
        subscribe(group, "bad", LARGE, params={"min": "x"})
        totals(world, 50)
        seen = Seen(group)
        group.failing = {1}
        retry = Policy(on_failure="retry", retry_delays_s=(3600.0,))
        group.drive(seen.handler, policy=retry)
        assert group.states() == {1: "waiting"}
        subscribe(group, "bad", LARGE, params={"min": 20})
        assert resume(group, "bad") == 1
        assert group.states() == {1: "waiting"}
        taken_over(group)
        world.conn.execute("update gapless.dead_letter set next_attempt_ts = now()")
        group.failing.clear()
        seen.events.clear()
        group.drive(seen.handler, policy=retry)
        assert seen.events == [(1, ["ann", "bad"])]
        assert group.effects() == [1]

    def test_retention_keeps_what_waits(self, world: World, group: Group) -> None:
        subscribe(group, "bad", LARGE, params={"min": "x"})
        totals(world, 50)
        group.drive()
        assert stops(group)
        assert group.next_offset() == 2
        with world.conn.transaction(force_rollback=True):
            world.conn.execute(
                "insert into gapless.chunk_end (upto, topic_id, partition_id, next_offset, events, newest_ts)"
                " values (1000000000000, %s, 0, 2, 1, now())",
                [world.topic.topic_id],
            )
            why = world.rows("select reason from gapless.reasons_to_keep(1000000000000)")
        assert any("subscription bad of group" in reason for (reason,) in why)


class TestFailures:
    def test_at_least_once(self, world: World, group: Group) -> None:
        """What was read ahead without the one that was stopped is read anew when it is resumed."""
        subscribe(group, "ann", LARGE, params={"min": 10})
        subscribe(group, "bad", LARGE, params={"min": "x"})
        totals(world, 5, 50, 5, 60)
        told: list[tuple[int, list[str]]] = []

        def take(unit: Unit) -> None:
            told.extend((e.offset, [s.name for s in e.subscriptions]) for e in unit)

        outside = make_handler(take, delivery="at-least-once")
        group.drive(outside, concurrency=1)
        assert told == [(2, ["ann"]), (4, ["ann"])]
        assert [row[:2] for row in stops(group)] == [("bad", 1)]
        totals(world, 70)
        driver = Driver(turn(group.conn, group.assignment, outside, concurrency=1))
        subscribe(group, "bad", LARGE, params={"min": 55})
        assert resume(group, "bad") == 1
        assert driver.turn().outcome == "fenced"
        taken_over(group)
        told.clear()
        group.drive(outside, concurrency=1)
        assert sorted(told) == [(4, ["bad"]), (5, ["ann", "bad"])]

    def test_at_least_once_what_was_finished_ahead_was_missed_too(
        self, world: World, group: Group
    ) -> None:
        """Nobody calls it again, so it is set aside as what the group has passed is."""
        subscribe(group, "ann", LARGE, params={"min": 10})
        subscribe(group, "bad", LARGE, params={"min": "x"})
        totals(world, 50, 60)
        told: list[tuple[int, list[str]]] = []
        goes_on = threading.Event()

        def take(unit: Unit) -> None:
            if unit.first_offset == 1:
                goes_on.wait(60)
            told.extend((e.offset, [s.name for s in e.subscriptions]) for e in unit)

        outside = make_handler(take, delivery="at-least-once")
        driver = Driver(turn(group.conn, group.assignment, outside, concurrency=2), wake=str)
        until("select finished from gapless.delivery where first_offset = 2", world, driver)
        assert group.next_offset() == 1
        assert [row[:2] for row in stops(group)] == [("bad", 1)]
        subscribe(group, "bad", LARGE, params={"min": 55})
        assert resume(group, "bad") == 1
        in_hand = "select crashes from gapless.delivery where first_offset = 1 and not finished"
        assert world.rows(in_hand) == [(0,)], "who was fenced killed nobody (I8)"
        goes_on.set()
        taken_over(group)
        group.drive(outside, concurrency=1)
        assert (2, ["bad"]) in told
        assert group.next_offset() == 3


REFUSED = {
    "true) or (true": "closes a parenthesis that it does not open",
    "true); drop table public.effect; --": "closes a parenthesis",
    "exists (select 1 from public.effect)": "nothing of schema public",
    "nextval('public.effect_n_seq') > 0": "public.effect_n_seq",
    "lo_create(1) > 0": "may not call lo_create",
    "pg_advisory_lock(1) is null": "no values of type void",
    "pg_try_advisory_lock(1)": "may not call pg_try_advisory_lock",
    "pg_notify('a', 'b') is null": "no values of type void",
    "pg_read_file('/etc/passwd') is null": "may not call pg_read_file",
    "query_to_xml('select 1', true, false, '') is null": "no values of type xml",
    "table_to_xml('pg_class', true, false, '') is null": "no values of type",
    "ts_rewrite('a'::tsquery, 'select 1') is null": "may not call ts_rewrite",
    "dblink('x', 'select 1') is null": "does not exist",
    "copy public.effect to '/tmp/x'": "nothing of schema public",
    "repeat('x', 1000000000) is null": "may not call repeat",
    "public.evil(1) = 1": "nothing of schema public",
    "public . evil(1) = 1": "nothing of schema public",
    "1 operator(public.===) 1": "nothing of schema public",
    "gapless.topic_id('orders') = 1": "nothing of schema gapless",
    "'{1}'::pg_temp.dd[] is null": "nothing of schema pg_temp",
    "'{1}'::e.dd[] is null": "no type of schema e",
    "length(format('%150000000sx', e.key)) > 0": "may not call format",
    "replace(e.key, 'a', e.key) = ''": "may not call replace",
    "'a'::char(10485760) = e.key": "may not call bpchar",
    "e.nosuch": "no SQL condition",
}  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:30])
def test_what_is_refused(world: World, group: Group, text: str) -> None:
    """Each with one sentence; nothing of it is left, and nothing was run."""
    world.conn.execute(
        "create or replace function public.evil(int) returns int immutable language plpgsql"
        " as $$ begin raise 'it was run' using errcode = 'XX000'; end $$"
    )
    if "===" in text:
        world.conn.execute(
            "do $$ begin create operator public.=== (leftarg = int, rightarg = int,"
            " function = int4eq); exception when duplicate_function then null; end $$"
        )
    with pytest.raises(psycopg.Error) as caught:
        subscribe(group, "ann", text)
    assert caught.value.sqlstate == "GL400"
    said = caught.value.diag.message_primary or ""
    assert said.startswith('the SQL condition of subscription "ann" ')
    assert REFUSED[text] in said
    made = "select count(*) from pg_proc where proname = 'condition_' || md5(%s)"
    assert world.value(made, text) == 0


def test_a_text_means_the_same_in_every_session(world: World, group: Group) -> None:
    """Whatever the settings of the one that compiles it."""
    text = "e.created_ts > timestamptz '2026-11-25 00:00' or e.key = null"
    with world.conn.transaction():
        world.conn.execute("set local timezone = 'Asia/Tokyo'")
        world.conn.execute("set local transform_null_equals = on")
        subscribe(group, "ann", text)
    world.conn.execute("set timezone = 'UTC'")
    made = world.value(
        "select pg_get_functiondef(p.oid) from pg_proc p where p.proname = 'condition_' || md5(%s)",
        text,
    )
    assert "2026-11-25 00:00:00+00" in made
    assert "IS NULL" not in made


def test_it_is_asked_with_the_rights_of_who_may_read_nothing(world: World) -> None:
    """Should a text ever get through that reads something: it may not."""
    owner = "select proowner::regrole::text, prosecdef from pg_proc where proname = 'ask_condition'"
    assert world.rows(owner) == [("gapless_condition", True)]
    readable = world.value(
        "select count(*) from pg_class c where relnamespace in"
        " ('gapless'::regnamespace, 'public'::regnamespace) and relkind in ('r', 'p', 'v')"
        " and has_table_privilege('gapless_condition', c.oid, 'select, insert, update, delete')"
    )
    assert readable == 0
    with world.conn.transaction(force_rollback=True):
        world.conn.execute(
            "create function gapless.condition_00000000000000000000000000000001("
            "e gapless.condition_event, s gapless.condition_subscription) returns boolean"
            " language sql stable return (exists (select 1 from gapless.topic))"
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            world.rows(
                "select * from gapless.ask_condition('00000000-0000-0000-0000-000000000001',"
                " array[row(1, null, null, null, null, null, null, null, null)::gapless.condition_event],"
                " array[row(1, 'a', '{}')::gapless.condition_subscription], null, null)"
            )
