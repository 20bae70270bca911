"""At least once, turn by turn: which calls are under way together, for how long each is reserved, how they end."""

import logging
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from features.queue.driven import VISIBLE_S, Driven, Fault, Make, driven, raises
from features.queue.holes import lose_event
from gapless.consume.verdict.policy import Policy
from gapless.db.connect import connect
from gapless.errors import HoleError
from gapless.features.queue.outside import RENEW_AFTER

__all__ = ["driven"]

OUTSIDE: dict[str, Any] = {
    "delivery": "at-least-once", "concurrency": 3, "visibility_s": VISIBLE_S,
    "agreed": {"policy": Policy(crashes_max=2)},
}  # fmt: skip
REFUSES = raises(ValueError("no"))


def deadlines(one: Driven) -> dict[int, Any]:
    rows = one.conn.execute(
        "select n, deadline from gapless.queue_range, generate_series(first_offset, last_offset) n"
        " where deadline > now()"
    )
    return dict(rows.fetchall())


def test_as_many_are_called_as_there_is_room_for(driven: Make) -> None:
    one = driven(5, **OUTSIDE)
    assert not one.driver.going_on
    assert one.driver.oldest_s is None
    assert one.turn().outcome == "done"
    one.until_running(1, 2, 3)
    assert one.driver.has_attempt
    assert one.driver.oldest_s is not None
    assert one.turn().outcome == "idle"
    assert set(deadlines(one)) == {1, 2, 3}
    one.end(2)
    done = one.turn()
    assert (done.events, done.units, done.handled) == (1, 1, 1)
    one.until_running(1, 3, 4)
    assert set(deadlines(one)) == {1, 3, 4}
    assert one.turn(one=True).outcome == "idle"
    one.end(1, 3, 4)
    assert one.turn(one=True).handled == 3
    one.until_running(5)
    one.end(5)
    assert one.turn().handled == 1
    assert (one.calls, deadlines(one)) == ([1, 2, 3, 4, 5], {})
    assert not one.driver.going_on


def test_what_a_worker_died_of_is_called_when_nothing_else_is(driven: Make) -> None:
    one = driven(8, **OUTSIDE)
    one.turn(one=True)
    one.until_running(1)
    one.died(2, 3)
    one.driver.wake()
    one.turn()
    one.turn()
    one.until_running(1)
    assert set(deadlines(one)) >= {1, 2}
    one.end(1)
    for alone in (2, 3):
        while alone not in one.calls:
            one.turn()
            assert len(one.running) <= 1 or not {2, 3} & set(one.running)
            for other in set(one.running) - {2, 3}:
                one.end(other)
        one.until_running(alone)
        one.turn()
        one.until_running(alone)
        one.end(alone)
    one.turn()


def test_what_too_many_died_of_is_not_called(driven: Make) -> None:
    one = driven(2, **OUTSIDE)
    one.died(1, 1, 3)
    dead = sum(one.turn().dead for _ in range(3))
    one.until_running(2)
    assert (dead, one.states(), one.calls) == (1, {1: "dead"}, [2])
    assert "its worker died" in str(
        one.conn.execute("select reason from gapless.dead_letter").fetchone()
    )


# How a call ends; what comes of its event, and what the turn says of it.
ENDS: dict[str, tuple[list[Fault], list[str], dict[str, int]]] = {
    "refused": ([REFUSES, REFUSES], ["waiting", "dead"], {"waiting": 1}),
    "later": ([raises(gapless.Retry(after=60.0))] * 3, ["waiting"] * 3, {"waiting": 1, "asked": 1}),
    "given up": ([raises(gapless.DeadLetter("bad"))], ["dead"], {"dead": 1}),
    "skipped": ([raises(gapless.Skip("old"))], [""], {"handled": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_what_failed_is_set_aside_as_the_policy_says(driven: Make, name: str) -> None:
    faults, states, first = ENDS[name]
    one = driven(1, **OUTSIDE | {"on_failure": "retry", "retry_delays_s": [3.0]})
    for nth, (fault, state) in enumerate(zip(faults, states, strict=True)):
        one.turn()
        one.until_running(1)
        one.end(1, by=fault)
        done = one.turn()
        assert one.states() == ({1: state} if state else {})
        assert done.events == 1
        if not nth:
            said = {
                "waiting": done.waiting,
                "dead": done.dead,
                "asked": done.asked,
                "handled": done.handled,
            }
            assert {name: count for name, count in said.items() if count} == first
        one.due_now()
        one.driver.wake()
    assert len(one.calls) == len(states)


def test_what_ends_after_its_time_is_told_and_counts_for_nobody(
    driven: Make, caplog: pytest.LogCaptureFixture, conn: Connection[Any]
) -> None:
    one = driven(3, **OUTSIDE)
    one.turn()
    one.until_running(1, 2, 3)
    conn.execute("update gapless.queue_range set deadline = clock_timestamp()")
    receipt, first, *_ = one.queue.reserve(conn, 3)[0]
    with caplog.at_level(logging.WARNING, "gapless.worker"):
        one.end(1, 2)
        one.end(3, by=REFUSES)
        assert one.turn().events == 3
    told = {int(each.partition(":")[0].partition("@")[2]) for each in caplog.messages}
    assert (first, told, one.states()) == (1, {1, 2, 3}, {})
    assert one.queue.call(conn, "acknowledge", receipt) == 1


def test_a_reservation_is_renewed_in_time_while_its_call_lasts(driven: Make) -> None:
    one = driven(2, **OUTSIDE)
    one.turn(one=True)
    one.until_running(1)
    after_s = RENEW_AFTER * VISIBLE_S
    assert one.driver.wait_s(one.turn(one=True)) <= after_s
    before = deadlines(one)
    one.now_s += after_s - 0.1
    one.turn(one=True)
    assert deadlines(one) == before
    one.now_s += 0.1
    one.turn(one=True)
    renewed = deadlines(one)
    assert renewed[1] > before[1]
    one.turn(one=True)
    assert deadlines(one) == renewed
    one.now_s += after_s
    assert one.driver.wait_s(one.turn(one=True)) >= 0.0
    assert deadlines(one)[1] > renewed[1]
    one.end(1)
    one.turn(one=True)
    one.until_running(2)
    assert set(deadlines(one)) == {2}


def test_what_another_took_since_is_not_called_later(driven: Make) -> None:
    one = driven(2, **OUTSIDE)
    one.turn(one=True)
    one.until_running(1)
    one.died(2, 2)
    one.driver.wake()
    one.turn()
    assert set(deadlines(one)) == {1, 2}, "it is to be called alone"
    one.conn.execute("update gapless.queue_range set deadline = now() where first_offset = 2")
    assert [offset for _, offset, *_ in one.queue.reserve(one.conn, 1)] == [2]
    one.now_s += RENEW_AFTER * VISIBLE_S
    one.turn()
    one.end(1)
    assert one.turn().handled == 1
    assert not one.driver.going_on
    assert one.calls == [1]


def test_a_hole_is_told_where_nothing_else_is_done(driven: Make) -> None:
    one = driven(2, block=1, **OUTSIDE)
    one.turn(one=True)
    one.until_running(1)
    lose_event(one.conn, "e2")
    one.end(1)
    assert one.turn().handled == 1
    with pytest.raises(HoleError):
        one.turn()
    assert one.turn().outcome == "idle"


def test_told_to_rest_it_begins_nothing_and_gives_back_what_is_not_called(driven: Make) -> None:
    one = driven(5, **OUTSIDE)
    one.turn(one=True)
    one.until_running(1)
    one.died(2, 2)
    one.driver.wake()
    one.turn()
    assert one.driver.rest().outcome == "idle"
    held = "select count(*) from gapless.queue_range where first_offset = 2 and deadline > now()"
    assert one.conn.execute(held).fetchone() == (0,)
    assert one.driver.going_on
    for each in list(one.running):
        one.end(each)
    assert one.driver.rest().handled >= 1
    assert not one.driver.going_on
    assert one.running == {}


def test_an_error_of_the_environment_gives_all_back_and_is_raised_in_the_end(driven: Make) -> None:
    one = driven(4, **OUTSIDE)
    one.turn()
    one.until_running(1, 2, 3)
    one.end(2, by=raises(psycopg.OperationalError("gone")))
    assert one.turn().outcome == "idle", "nothing else begins"
    assert set(deadlines(one)) - {2} == {1, 3}
    one.end(1, 3)
    with pytest.raises(psycopg.OperationalError, match="gone"):
        one.turn()
    one.driver.wake()
    while len(one.running) < 2:
        one.turn()
    one.until_running(2, 4)
    assert one.states() == {}


@pytest.mark.parametrize("deadly", [False, True])
def test_after_a_lost_session_all_in_hand_is_free(driven: Make, dsn: str, *, deadly: bool) -> None:
    """One that waits for its turn alone, too."""
    one = driven(2, **OUTSIDE)
    one.turn(one=True)
    if deadly:
        one.died(2, 2)
    one.driver.wake()
    one.turn()
    assert set(deadlines(one)) == {1, 2}
    one.until_running(*([1] if deadly else [1, 2]))
    with connect(dsn, role="test") as other:
        one.driver.forgive(other)
    assert sum(len(one.queue.reserve(one.conn, 2)) for _ in range(2)) == 2


def test_without_a_wake_a_turn_waits_for_the_end_of_a_call(driven: Make) -> None:
    one = driven(2, **OUTSIDE, waits=True)
    assert one.turn().outcome == "done"
    one.until_running(1, 2)
    one.running[1].put(lambda _: None)
    assert one.turn().handled == 1
    one.running[2].put(lambda _: None)
    assert one.turn().handled == 1
