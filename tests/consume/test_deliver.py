"""At-least-once handlers: nothing lost, in order for each key, only the unrecorded repeated."""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless import failpoints
from gapless.consume.drive import Driver
from gapless.consume.outside.lookahead import LOOK_AT_END_S, LOOK_S
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import OnFailure, Policy
from gapless.db.connect import connect
from gapless.errors import BlockedError, HoleError
from gapless.lease import hold
from gapless.log.event import NewEvent, Row
from gapless.log.read import fetch
from support.turn import turn
from support.world import TOPIC, Group, World


class Calls:
    """Keeps what was called, and how many at a time; `act` is what a test wants done."""

    def __init__(self, group: Group, concurrency: int = 4) -> None:
        self.group = group
        self.seen: list[tuple[int, int]] = []
        self.going_on: set[str] = set()
        self.most = 0
        self.lock = threading.Lock()
        self.handler: Handler = gapless.handler(
            topic=TOPIC, delivery="at-least-once", concurrency=concurrency
        )(self.take)

    def take(self, unit: Unit) -> None:
        keys = {str(event.key) for event in unit}
        with self.lock:
            assert not keys & self.going_on, "two calls of one key at a time"
            self.going_on |= keys
            self.most = max(self.most, len(self.going_on))
            self.seen.append((unit.first_offset, unit.attempt))
        try:
            self.act(unit)
        finally:
            with self.lock:
                self.going_on -= keys

    def act(self, unit: Unit) -> None:
        time.sleep(0.002)
        if unit.first_offset in self.group.failing:
            raise ValueError("refused")

    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.seen]

    def drive(self, on_failure: OnFailure = "dead-letter", *delays_s: float) -> None:
        policy = Policy(on_failure=on_failure, retry_delays_s=delays_s)
        self.group.drive(self.handler, policy=policy)


def fill(world: World, keys: str) -> None:
    for key in keys:
        world.events([NewEvent(payload={}, key=key)])


def many(world: World, keys: Iterable[str]) -> None:
    """Publish a unit for each key, all at once."""
    world.events([NewEvent(payload={}, key=key, transaction_id=uuid4()) for key in keys])


@pytest.mark.long
@pytest.mark.parametrize("concurrency", [1, 4])
def test_each_once_when_all_is_well(world: World, group: Group, concurrency: int) -> None:
    fill(world, "abcd" * 10)
    calls = Calls(group, concurrency)
    calls.drive()
    assert sorted(calls.seen) == [(n, 1) for n in range(1, 41)]
    for key in range(4):
        own = [n for n in calls.offsets() if n % 4 == key]
        assert own == sorted(own)
    assert calls.most == concurrency or concurrency > 1
    assert calls.most <= concurrency
    assert group.next_offset() == 41
    assert world.value("select count(*) from gapless.delivery") == 0


def test_the_offset_moves_over_the_finished_prefix_alone(world: World, group: Group) -> None:
    fill(world, "abbb")
    calls = Calls(group)
    others_done, first_done = threading.Event(), threading.Event()

    def act(unit: Unit) -> None:
        if unit.first_offset == 1:
            assert others_done.wait(120)
            first_done.set()
        elif unit.first_offset == 4:
            others_done.set()

    calls.act = act  # type: ignore[method-assign]
    at: list[tuple[int, int]] = []
    look = "select count(*) filter (where finished) from gapless.delivery"

    def watch(_: str) -> None:
        seen = group.next_offset(), world.value(look)
        if not first_done.is_set():
            at.append(seen)

    failpoints.arm({"deliver.noted": watch})
    calls.drive()
    assert at[0] == (1, 0)
    assert {offset for offset, _ in at} == {1}, "the first is not finished"
    assert max(finished for _, finished in at) >= 1
    assert group.next_offset() == 5


def test_what_was_finished_ahead_is_not_called_again(world: World, group: Group) -> None:
    """The worker dies while the first is in hand: only that one is called again."""
    fill(world, "abcd")
    world.conn.execute(
        "insert into gapless.delivery select group_id, topic_id, 0, o, o, 1, (o = 1)::int, o <> 1"
        " from gapless.consumer_offsets, generate_series(1, 3) o where group_id = %s",
        [group.name],
    )
    calls = Calls(group)
    calls.drive()
    assert sorted(calls.seen) == [(1, 2), (4, 1)]
    assert group.next_offset() == 5


@pytest.mark.few(2)
@pytest.mark.parametrize("in_hand", [0, 1])
@pytest.mark.parametrize("units", [8, 10])
def test_the_offset_moves_over_what_a_former_worker_finished_ahead(
    world: World, group: Group, in_hand: int, units: int
) -> None:
    """It had read further ahead than its successor does, and nothing may be left to call."""
    fill(world, "abcdefghij"[:units])
    world.conn.execute(
        "insert into gapless.delivery"
        " select group_id, topic_id, 0, o, o, 1, (o = %s)::int, o <> %s"
        " from gapless.consumer_offsets, generate_series(1, 8) o where group_id = %s",
        [in_hand, in_hand, group.name],
    )
    calls = Calls(group, concurrency=1)
    group.drive(calls.handler, batch_size=2)
    assert calls.seen == [(1, 2)] * in_hand + [(9, 1), (10, 1)][: units - 8]
    assert group.next_offset() == units + 1
    assert world.value("select count(*) from gapless.delivery") == 0


def test_one_that_kills_is_known_and_its_neighbours_are_not_blamed(
    world: World, group: Group
) -> None:
    fill(world, "abcd")
    world.conn.execute(
        "insert into gapless.delivery select group_id, topic_id, 0, o, o, 3, 3 - o, false"
        " from gapless.consumer_offsets, generate_series(0, 2) o where group_id = %s and o > 0",
        [group.name],
    )
    world.conn.execute("update gapless.delivery set crashes = 3 where first_offset = 2")
    calls = Calls(group)
    calls.drive()
    assert sorted(calls.offsets()) == [1, 3, 4]
    assert group.states() == {2: "dead"}
    assert "died, or lost its session, 3 times" in group.letters()[2]


def test_what_befalls_another_unit_does_not_acquit_one_that_kills(
    world: World, group: Group
) -> None:
    fill(world, "ab")
    world.conn.execute(
        "insert into gapless.delivery select group_id, topic_id, 0, o, o, 3, 2 * o - 1, false"
        " from gapless.consumer_offsets, generate_series(1, 2) o where group_id = %s",
        [group.name],
    )
    calls = Calls(group)

    def act(unit: Unit) -> None:
        if unit.attempt == 4:
            raise psycopg.OperationalError("the mail database is away")

    calls.act = act  # type: ignore[method-assign]
    with pytest.raises(psycopg.OperationalError, match="away"):
        calls.drive()
    calls.drive()
    assert calls.seen == [(1, 4), (1, 5)]
    assert (group.states(), group.next_offset()) == ({2: "dead"}, 3)


class TestPolicies:
    def test_dead_letter(self, world: World, group: Group) -> None:
        fill(world, "abcab")
        group.failing = {2}
        calls = Calls(group)
        calls.drive()
        assert sorted(calls.offsets()) == [1, 2, 3, 4, 5]
        assert (group.states(), group.next_offset()) == ({2: "dead"}, 6)

    def test_retry_tells_the_attempt_and_keeps_the_idempotency_key(
        self, world: World, group: Group
    ) -> None:
        fill(world, "abc")
        keys: list[tuple[int, str]] = []
        calls = Calls(group)

        def act(unit: Unit) -> None:
            if unit.first_offset == 2:
                keys.append((unit.attempt, unit.idempotency_key))
                if unit.attempt < 3:
                    raise ValueError("not yet")

        calls.act = act  # type: ignore[method-assign]
        calls.drive("retry", 0, 0)
        assert [attempt for attempt, _ in keys] == [1, 2, 3]
        assert {key for _, key in keys} == {f"{group.name}/{world.topic.name}/0@2"}
        assert group.states() == {}

    def test_park_key(self, world: World, group: Group) -> None:
        fill(world, "abaab")
        group.failing = {1}
        calls = Calls(group)
        calls.drive("park-key")
        assert group.states() == {1: "dead", 3: "parked", 4: "parked"}
        assert sorted(calls.offsets()) == [1, 2, 5]
        group.failing = set()
        world.value("select gapless.redrive_letter(%s, %s, 0, 1)", group.name, world.topic.name)
        calls.drive("park-key")
        assert [n for n in calls.offsets() if n in (1, 3, 4)] == [1, 1, 3, 4]
        assert group.states() == {1: "redriven"}

    def test_block(self, world: World, group: Group) -> None:
        fill(world, "abab")
        group.failing = {1}
        calls = Calls(group)
        for _ in range(3):
            with pytest.raises(BlockedError, match="@1: ValueError: refused"):
                calls.drive("block")
            assert group.next_offset() == 1
        assert sorted(calls.offsets()) == [1, 1, 1, 2, 4], "others of the window are called once"
        group.failing = set()
        calls.drive("block")
        assert (calls.offsets()[-1], group.next_offset()) == (3, 5)

    def test_what_is_the_environments_is_called_again(self, world: World, group: Group) -> None:
        fill(world, "abc")
        calls = Calls(group)

        def act(unit: Unit) -> None:
            if (unit.first_offset, unit.attempt) == (1, 1):
                raise psycopg.OperationalError("the mail database is away")

        calls.act = act  # type: ignore[method-assign]
        with pytest.raises(psycopg.OperationalError, match="away"):
            calls.drive()
        assert group.next_offset() == 1
        assert world.value("select max(crashes) from gapless.delivery") == 0
        calls.drive()
        assert (group.states(), group.next_offset()) == ({}, 4)
        assert sorted(calls.seen) == [(1, 1), (1, 2), (2, 1), (3, 1)]

    def test_what_the_environment_ended_is_no_failure(self, world: World, group: Group) -> None:
        """The first failure has the first delay, whichever call it was."""
        fill(world, "a")
        calls = Calls(group)

        def act(unit: Unit) -> None:
            if unit.attempt == 1:
                raise psycopg.OperationalError("the mail database is away")
            raise ValueError("refused")

        calls.act = act  # type: ignore[method-assign]
        with pytest.raises(psycopg.OperationalError, match="away"):
            calls.drive("retry", 3600)
        calls.drive("retry", 3600)
        assert calls.seen == [(1, 1), (1, 2)]
        assert (group.states(), group.letters_have("attempts")) == ({1: "waiting"}, {1})


class TestParkedAhead:
    """Units that are parked in front of which another one is not finished yet."""

    def test_it_is_known_after_an_interruption(self, world: World, group: Group) -> None:
        fill(world, "a")
        group.failing = {1}
        calls = Calls(group)
        calls.drive("park-key")
        fill(world, "ba")
        away = True

        def act(unit: Unit) -> None:
            if away:
                raise psycopg.OperationalError("the mail database is away")

        calls.act = act  # type: ignore[method-assign]
        with pytest.raises(psycopg.OperationalError, match="away"):
            calls.drive("park-key")
        assert (group.next_offset(), group.states()) == (2, {1: "dead", 3: "parked"})
        world.value(
            "select gapless.discard_letter(%s, %s, 0, 3, 'of no use')",
            group.name,
            world.topic.name,
        )
        away = False
        calls.drive("park-key")
        assert group.next_offset() == 4
        assert group.states() == {1: "dead", 3: "discarded"}, "what a person did stands"
        assert calls.offsets() == [1, 2, 2]

    @pytest.mark.long
    def test_parking_many_is_told_to_the_supervisor(self, world: World, group: Group) -> None:
        """No call ends meanwhile; without a sign of life the worker would be taken for stuck."""
        fill(world, "a")
        group.failing = {1}
        calls = Calls(group, concurrency=2)
        calls.drive("park-key")
        fill(world, "a" * 20)
        driver = Driver(
            turn(group.conn, group.assignment, calls.handler, policy=Policy(on_failure="park-key")),
        )
        parked = []
        while (done := driver.turn()).outcome == "done":
            parked.append(done.parked)
        assert calls.offsets() == [1]
        assert sum(parked) == 20
        assert max(parked) <= 2, "a turn, which is a sign of life, is short"


@pytest.mark.long
def test_one_slow_call_does_not_keep_the_others_waiting(world: World, group: Group) -> None:
    """However many: no window has to end before more of the log is taken."""
    others = 600
    many(world, [f"k{n}" for n in range(others + 1)])
    calls = Calls(group, concurrency=2)
    called = threading.Semaphore(0)

    def act(unit: Unit) -> None:
        if unit.first_offset > 1:
            called.release()
            return
        for _ in range(others):
            assert called.acquire(timeout=60)

    calls.act = act  # type: ignore[method-assign]
    calls.drive()
    assert group.states() == {}, "what the handler asserts fails its unit"
    assert sorted(calls.seen) == [(n, 1) for n in range(1, others + 2)]
    assert group.next_offset() == others + 2


@pytest.mark.long
def test_what_is_read_ahead_is_bounded(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.consume.outside.lookahead.AHEAD_EVENTS", 10)
    many(world, [f"k{n}" for n in range(40)])
    calls = Calls(group, concurrency=2)
    ahead = threading.Semaphore(0)

    def act(unit: Unit) -> None:
        if unit.first_offset > 1:
            ahead.release()
            return
        for _ in range(9):
            assert ahead.acquire(timeout=120)
        assert not ahead.acquire(timeout=0.3), "an eleventh was called"

    calls.act = act  # type: ignore[method-assign]
    calls.drive()
    assert group.states() == {}
    assert group.next_offset() == 41


def test_calls_go_on_between_turns(world: World, group: Group) -> None:
    fill(world, "a")
    calls, go_on, woken = Calls(group), threading.Event(), threading.Event()
    calls.act = lambda unit: go_on.wait(120)  # type: ignore[method-assign,assignment,return-value]
    driver = Driver(turn(group.conn, group.assignment, calls.handler), wake=woken.set)
    assert [driver.turn().outcome for _ in range(2)] == ["done", "idle"]
    assert driver.going_on
    assert driver.oldest_s is not None
    fill(world, "bc")
    while calls.most < 3:
        driver.turn()
    fill(world, "d")
    assert [driver.rest().outcome for _ in range(2)] == ["idle", "idle"]
    go_on.set()
    while driver.going_on:
        assert woken.wait(120)
        driver.rest()
    assert not driver.has_attempt
    assert (group.next_offset(), len(calls.seen)) == (4, 3), "the last was not begun"


@pytest.mark.long
@pytest.mark.parametrize("is_full", [False, True], ids=["reads more", "has read enough"])
def test_a_pause_lets_no_other_call_begin(
    world: World,
    group: Group,
    monkeypatch: pytest.MonkeyPatch,
    is_full: bool,
) -> None:
    monkeypatch.setattr("gapless.consume.outside.lookahead.LOOK_S", 0.0)
    units = 100 if is_full else 6
    many(world, (f"k{n}" for n in range(units)))
    calls = Calls(group, concurrency=1)

    def act(unit: Unit) -> None:
        if unit.first_offset == 2:
            world.value("select gapless.pause(%s, %s)", group.name, world.topic.name)

    calls.act = act  # type: ignore[method-assign]
    calls.drive()
    assert (calls.offsets(), group.next_offset()) == ([1, 2], 3)
    world.value("select gapless.resume(%s, %s)", group.name, world.topic.name)
    calls.drive()
    assert group.next_offset() == units + 1


def test_whether_it_is_paused_is_asked_now_and_then(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While enough is read, no turn asks the database for more."""
    now_s = [1000.0]
    monkeypatch.setattr("gapless.consume.outside.lookahead.monotonic", lambda: now_s[0])
    many(world, (f"k{n}" for n in range(100)))
    calls = Calls(group, concurrency=1)
    driver = Driver(turn(group.conn, group.assignment, calls.handler, batch_size=40))
    counts = []
    for passes_s in (0.0, 0.0, LOOK_S, 0.0):
        now_s[0] += passes_s
        for _ in range(4):
            driver.turn()
        counts.append(len(calls.seen))
        world.value("select gapless.pause(%s)", group.name)
    assert counts[0] < counts[1] == counts[2] == counts[3]


def test_at_the_end_of_the_log_it_looks_now_and_then(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a call is under way; as long as there was more, it looks at once."""
    now_s = [1000.0]
    monkeypatch.setattr("gapless.consume.outside.lookahead.monotonic", lambda: now_s[0])
    fill(world, "ab")
    calls, go_on = Calls(group), threading.Event()
    calls.act = lambda unit: go_on.wait(120)  # type: ignore[method-assign,assignment,return-value]
    driver = Driver(turn(group.conn, group.assignment, calls.handler, batch_size=1), wake=str)
    assert [driver.turn().outcome for _ in range(3)] == ["done", "done", "idle"]
    assert driver.wait_s(driver.turn(), 1.0) == pytest.approx(LOOK_AT_END_S)
    fill(world, "c")
    for passes_s, outcome, wait_s in (
        (0.5 * LOOK_AT_END_S, "idle", 0.5 * LOOK_AT_END_S),
        (0.75 * LOOK_AT_END_S, "done", 0.0),
        (0.0, "idle", LOOK_S),
    ):
        now_s[0] += passes_s
        done = driver.turn()
        assert (done.outcome, driver.wait_s(done, 1.0)) == (outcome, pytest.approx(wait_s))
    go_on.set()
    while driver.going_on:
        driver.rest()
    assert group.next_offset() == 4


@pytest.mark.long
def test_a_unit_too_large_for_memory_is_read_while_other_calls_go_on(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.consume.read.units.FETCH_EVENTS", 3)
    for key in "abc":
        world.events([NewEvent(payload={"n": n}, key=key) for n in range(50)])
    read: list[list[int]] = []
    handler = gapless.handler(topic=TOPIC, delivery="at-least-once", concurrency=3)(
        lambda unit: read.append([event.payload["n"] for event in unit])
    )
    driver = Driver(turn(group.conn, group.assignment, handler, stream_above_events=10))
    while driver.turn().outcome == "done":
        pass
    assert read == [list(range(50))] * 3
    assert group.next_offset() == 151


def test_an_event_that_vanishes_while_its_unit_is_read_is_no_failure_of_it(
    world: World, group: Group
) -> None:
    """It is read by the session's thread, and the error comes back to it by way of the call."""
    world.events([NewEvent(payload={"n": n}, key="a") for n in range(50)])

    def take(unit: Unit) -> None:
        world.conn.execute("delete from gapless.outbox_message_t")
        list(unit)

    handler = gapless.handler(topic=TOPIC, delivery="at-least-once")(take)
    with pytest.raises(HoleError):
        group.drive(handler, stream_above_events=10)
    assert (group.states(), group.next_offset()) == ({}, 1)


@pytest.mark.long
def test_a_key_that_was_let_go_is_not_parked_for_ever(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the window slides on, a person discards the unit that held the key."""
    monkeypatch.setattr("gapless.consume.agenda.LOOK_BUSY_S", 0.0)
    monkeypatch.setattr("gapless.consume.agenda.ASIDES_EVERY_S", 0.0)
    monkeypatch.setattr(
        "gapless.consume.outside.lookahead.LOOK_S", 60.0
    )  # reads no more than is wanted
    many(world, [*"a" * 5, *(f"b{n}" for n in range(300)), *"a" * 5])
    group.failing = {1}
    calls = Calls(group, concurrency=2)
    discarded = threading.Event()

    def act(unit: Unit) -> None:
        if unit.first_offset == 1:
            raise ValueError("refused")
        if unit.first_offset == 10:
            asked = "select gapless.discard_letter(%s, %s, 0, 1, 'a test')"
            while world.value(asked, group.name, world.topic.name) == "busy":
                time.sleep(0.01)
            discarded.set()
        elif unit.first_offset > 50:
            assert discarded.wait(60)

    calls.act = act  # type: ignore[method-assign]
    parked = 0
    driver = Driver(
        turn(group.conn, group.assignment, calls.handler, policy=Policy(on_failure="park-key")),
    )
    while (done := driver.turn()).outcome == "done" or driver.has_due():
        parked += done.parked
    assert parked == 4, "those behind the one that failed, and nobody later"
    assert [n for n in calls.offsets() if n < 6 or n > 305] == [1, 2, 3, 4, 5, *range(306, 311)]
    assert group.states() == {1: "discarded"}


@pytest.mark.long
def test_a_retry_waits_for_calls_of_its_key(world: World, group: Group) -> None:
    many(world, "ab" * 60)
    calls = Calls(group, concurrency=4)  # asserts that no key has two calls at a time

    def act(unit: Unit) -> None:
        time.sleep(0.002)
        if unit.first_offset % 7 == 0 and unit.attempt < 3:
            raise ValueError("not yet")

    calls.act = act  # type: ignore[method-assign]
    calls.drive("retry", 0, 0)
    assert (group.states(), group.next_offset()) == ({}, 121)
    assert len(calls.seen) == 120 + 2 * 17


@pytest.mark.few(2)
@pytest.mark.parametrize("nth", [1, 2, 3, 5])
def test_what_could_not_be_noted_is_open_again(world: World, group: Group, nth: int) -> None:
    """A passing error of the note itself: the same driver goes on, and forgets nobody."""
    world.conn.execute(
        "create sequence public.notes; create function fail_once() returns trigger language plpgsql as $$"
        f" begin if nextval('public.notes') = {nth} then"
        " raise exception 'not now' using errcode = '40001'; end if; return new; end $$;"
        "create trigger fail_once before insert or update on gapless.delivery"
        " for each row execute function fail_once()"
    )
    fill(world, "abcabc")
    calls = Calls(group, concurrency=2)
    driver = Driver(turn(group.conn, group.assignment, calls.handler))
    with pytest.raises(psycopg.errors.SerializationFailure):
        while driver.turn().outcome == "done":
            pass
    while driver.turn().outcome == "done":
        pass
    assert sorted(calls.seen) == [(n, 1) for n in range(1, 7)]
    assert (group.next_offset(), group.states()) == (7, {})


def test_moved_while_a_call_goes_on(world: World, group: Group) -> None:
    """Somebody set the offset: what was called for the old place is not noted at the new one."""
    fill(world, "aaaa")
    calls = Calls(group, concurrency=1)

    def act(unit: Unit) -> None:
        if unit.first_offset == 1:
            world.conn.execute(
                "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
                f"update gapless.consumer_offsets set next_offset = 3 where group_id = '{group.name}'"
            )

    calls.act = act  # type: ignore[method-assign]
    driver = Driver(turn(group.conn, group.assignment, calls.handler))
    outcomes = [driver.turn().outcome for _ in range(8)]
    # A look at the log that waits for the lock of whoever moves the offset takes that for a fence.
    assert outcomes[0] == "done", "begun"
    assert outcomes[1] in {"idle", "fenced"}, "and then nothing is noted"
    assert calls.offsets() == [1, 3, 4]
    assert group.next_offset() == 5


def test_a_former_owner_notes_nothing(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7, also when it has read enough and no look at the log tells it before."""
    monkeypatch.setattr("gapless.consume.outside.lookahead.LOOK_S", 1e9)
    many(world, (f"k{n}" for n in range(100)))
    calls = Calls(group, concurrency=1)

    def act(unit: Unit) -> None:
        world.conn.execute(
            "update gapless.consumer_offsets set epoch = epoch + 1 where group_id = %s",
            [group.name],
        )

    calls.act = act  # type: ignore[method-assign]
    driver = Driver(turn(group.conn, group.assignment, calls.handler))
    outcomes = [driver.turn().outcome for _ in range(3)]
    assert outcomes == ["done", "idle", "fenced"]
    assert (calls.offsets(), group.next_offset()) == ([1], 1)
    assert world.rows("select * from gapless.delivery where finished") == []


@pytest.mark.few(3)
@pytest.mark.parametrize("point", ["deliver.noted", "deliver.called"])
@pytest.mark.parametrize("nth", [1, 2, 5])
def test_interrupted_anywhere_nothing_is_lost(
    world: World, group: Group, point: str, nth: int
) -> None:
    fill(world, "abcabcabc")
    calls = Calls(group, concurrency=2)
    failpoints.arm({point: f"raise@{nth}"})
    with pytest.raises(RuntimeError, match="failpoint"):
        calls.drive()
    failpoints.arm({})
    calls.drive()
    assert sorted(set(calls.offsets())) == list(range(1, 10))
    assert len(calls.seen) <= 9 + 2, "at most those in hand again"
    assert (group.next_offset(), group.states()) == (10, {})


def _terminate(conn: Connection[Any], world: World) -> None:
    """The server ends the session."""
    world.conn.execute("select pg_terminate_backend(%s, 5000)", [conn.info.backend_pid])


def _lose(conn: Connection[Any], _: World) -> None:
    """The next statement, often COMMIT, is done, and its answer never comes."""
    with socket.socket(fileno=os.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RD)


@pytest.mark.few(2)
@pytest.mark.parametrize("point", ["deliver.noted", "deliver.called"])
@pytest.mark.parametrize("deed", [_terminate, _lose])
def test_a_session_lost_anywhere_loses_nothing(
    world: World, group: Group, point: str, deed: Callable[[Connection[Any], World], None]
) -> None:
    fill(world, "abcabcabc")
    calls = Calls(group, concurrency=2)
    passed = count(1)

    def act(_: str) -> None:
        if next(passed) == 2:
            deed(group.conn, world)

    failpoints.arm({point: act})
    with pytest.raises(psycopg.OperationalError):
        calls.drive()
    failpoints.arm({})
    with connect(world.dsn, role="worker") as conn:
        group.conn.close()
        group.conn, group.assignment = conn, group.successor(conn)
        assert hold.install(conn, group.assignment) is not None
        calls.drive()
        assert sorted(set(calls.offsets())) == list(range(1, 10))
        assert len(calls.seen) <= 9 + 2, "at most those in hand again"
        assert (group.next_offset(), group.states()) == (10, {})
        assert len(set(calls.seen)) == len(calls.seen), "no attempt is told twice"


def test_those_before_a_hole_are_called_though_all_were_to_be_read_together(
    world: World, group: Group
) -> None:
    many(world, "abcd")
    world.conn.execute(
        "delete from gapless.outbox_message_t where id = (select id from gapless.outbox_message_t"
        " where key = 'c')"
    )
    calls = Calls(group)
    with pytest.raises(HoleError):
        calls.drive()
    assert {1, 2} <= {*calls.offsets()}
    assert 3 not in calls.offsets()
    assert group.next_offset() == 3


def test_units_that_begin_together_are_read_with_one_statement(
    world: World, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(world, "abcd")
    calls, read = Calls(group), []
    calls.act = lambda unit: None  # type: ignore[method-assign]

    def counted(conn: Connection[Any], ids: Sequence[int]) -> list[Row]:
        read.append(len(ids))
        return fetch(conn, ids)

    monkeypatch.setattr("gapless.consume.read.units.fetch", counted)
    calls.drive()
    assert sorted(calls.seen) == [(n, 1) for n in range(1, 5)]
    assert read == [4]
