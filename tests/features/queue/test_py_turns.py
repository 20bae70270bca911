"""Exactly once, turn by turn: effects and what is set aside, whatever a call does to its transaction (Q4, I6)."""

from collections import Counter
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from features.queue.driven import Driven, Fault, Make, driven, raises, runs
from gapless import ops
from gapless.consume.verdict.policy import Policy
from gapless.db.connect import connect
from gapless.errors import BlockedError
from gapless.features.queue.drive import GOES_ON_S, LOOK_BUSY_S, SOON_S, SWEEP_EVERY_CLAIMS

__all__ = ["driven"]

REFUSES = raises(ValueError("no"))
COMMITS, ROLLS_BACK = runs("commit"), runs("rollback")
SPOILS_COMMIT = runs("insert into once values (0)")
CONFLICTS = runs("do $$ begin raise sqlstate '40001'; end $$")
UNREADY = runs("select from not_yet")
DIES = runs("select pg_terminate_backend(pg_backend_pid())")
# Which events fail how, each time; the most calls of any other one.
FAULTS: dict[str, tuple[dict[int, Fault], int]] = {
    "none": ({}, 1),
    "the first": ({1: REFUSES}, 1),
    "one": ({6: REFUSES}, 2),
    "the last": ({10: REFUSES}, 2),
    "two of a batch": ({6: REFUSES, 7: REFUSES}, 2),
    "all": (dict.fromkeys(range(1, 11), REFUSES), 0),
    "one commits": ({7: COMMITS}, 5),
    "one rolls back": ({5: ROLLS_BACK}, 5),
    "one spoils the commit": ({7: SPOILS_COMMIT}, 5),
    "two spoil it": ({1: SPOILS_COMMIT, 4: SPOILS_COMMIT}, 6),
    "of each": ({2: REFUSES, 3: COMMITS, 6: SPOILS_COMMIT, 9: ROLLS_BACK}, 6),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize(
    "options", [{}, {"agreed": {"units_per_commit": 2}}, {"batch_size": 1}], ids=str
)
def test_only_those_that_fail_are_set_aside(
    driven: Make, name: str, options: dict[str, Any]
) -> None:
    """The others commit, each once, and are called a few times at most for them."""
    faults, most = FAULTS[name]
    one = driven(10, **options)
    one.faults = {n: [fault] for n, fault in faults.items()}
    total = one.drain()
    assert one.effects() == [n for n in range(1, 11) if n not in faults]
    assert one.states() == dict.fromkeys(faults, "dead")
    assert (total["events"], total["units"]) == (10, 10)
    assert (total["handled"], total["dead"]) == (10 - len(faults), len(faults))
    called = Counter(n for n in one.calls if n not in faults)
    assert max(called.values(), default=0) <= most
    one.driver.sweep()
    assert one.queue.floor(one.conn) == 11


@pytest.mark.parametrize("fault", [CONFLICTS, runs("insert into late values (1)")])
@pytest.mark.parametrize("offset", [1, 6])
def test_what_passes_is_raised_and_nothing_of_the_batch_is_committed(
    driven: Make, offset: int, fault: Fault
) -> None:
    one = driven(6)
    one.faults = {offset: [fault]}
    with pytest.raises(psycopg.errors.SerializationFailure):
        one.drain()
    assert (one.held, one.effects()) == ((0, 0, 0), [n for n in range(1, 5) if offset == 6])
    one.faults.clear()
    one.drain()
    assert (one.effects(), one.states()) == (list(range(1, 7)), {})


@pytest.mark.parametrize("nth", [1, 2])
def test_what_another_took_since_is_not_set_aside(driven: Make, dsn: str, nth: int) -> None:
    """Nor is its neighbour: its holder finds out the trouble with it."""
    one = driven(3, block=1)
    with connect(dsn, role="test") as other:

        def loses(conn: Connection[Any] | None) -> None:
            ROLLS_BACK(conn)
            if one.calls.count(2) == nth:
                assert one.queue.work(other, 2, most=1).offsets == (2, 2)

        one.faults = {2: [loses]}
        one.drain()
    assert (one.effects(), one.states()) == ([1, 3], {})
    one.driver.sweep()
    assert one.queue.floor(one.conn) == 4


def test_a_session_that_is_lost_leaves_what_was_in_hand_said(
    driven: Make, dsn: str, conn: Connection[Any]
) -> None:
    """The worker may have died of it: that is for the next one to say."""
    one = driven(6)
    with connect(dsn, role="test") as session:
        one.drive(session)
        one.faults = {3: [DIES]}
        with pytest.raises(psycopg.OperationalError):
            one.driver.turn()
    assert one.driver.has_attempt
    assert one.held == (one.queue.lease, 1, 4)
    one.driver.forgive(conn)
    assert one.held == (0, 0, 0)
    one.faults.clear()
    one.drive(conn)
    one.drain()
    assert one.effects() == list(range(1, 7))


def test_a_database_that_is_not_ready_is_waited_for(driven: Make) -> None:
    """What is before that event commits; nothing is set aside."""
    one = driven(6, is_patient=True)
    one.faults = {3: [UNREADY]}
    for _ in range(2):
        with pytest.raises(BlockedError, match="sender/mails/0@3"):
            one.drain()
        assert one.held == (0, 0, 0)
        assert one.effects()[:2] == [1, 2]
    one.faults = {6: [UNREADY]}
    with pytest.raises(BlockedError, match="sender/mails/0"):
        one.drain()
    one.faults = {}
    one.drain()
    assert (one.effects(), one.states()) == (list(range(1, 7)), {})


def test_one_turn_takes_batch_after_batch_for_a_while(driven: Make) -> None:
    one = driven(10)
    assert one.turn().events == 10, "no time passes"

    one.publish(10)
    one.driver.wake()
    one.takes_s = GOES_ON_S
    assert one.turn().events == 4
    assert one.turn(one=True).events == 1
    assert one.effects() == list(range(1, 16))


# -- what was set aside ---------------------------------------------------------------------------

MAX_2 = {"policy": Policy(crashes_max=2)}
RETRY: dict[str, Any] = {"on_failure": "retry", "retry_delays_s": [3.0]}
# How the calls of an event end, one after the other: its state after each, and how often it is called.
ENDS: dict[str, tuple[list[Fault], list[str | None]]] = {
    "twice": ([REFUSES] * 2, ["waiting", "dead"]),
    "once": ([REFUSES], ["waiting", None]),
    "it commits": ([REFUSES, COMMITS], ["waiting", "dead"]),
    "it spoils the commit": ([SPOILS_COMMIT, SPOILS_COMMIT], ["waiting", "dead"]),
    "it wishes": (
        [raises(gapless.Retry(after=60.0))] * 3,
        ["waiting", "waiting", "waiting", None],
    ),
    "it gives up": ([REFUSES, raises(gapless.DeadLetter("bad"))], ["waiting", "dead"]),
    "it is skipped": ([REFUSES, raises(gapless.Skip("old"))], ["waiting", "skipped"]),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_failed_is_tried_again_alone_when_it_is_due(driven: Make, name: str) -> None:
    faults, states = ENDS[name]
    one = driven(4, **RETRY)
    one.faults = {2: [*faults]}
    for nth, state in enumerate(states):
        total = one.drain()
        gone = state in (None, "skipped")
        assert one.states() == ({} if gone else {2: state})
        if state == "waiting":
            assert total["waiting"] == 1
            assert one.driver.wait_s(one.turn()) <= 3.0
        if nth:
            assert total["events"] == 1
        one.due_now()
        one.driver.wake()
    assert one.effects() == ([1, 2, 3, 4] if states[-1] is None else [1, 3, 4])
    assert one.calls[-1] == 2


def test_a_dead_one_that_is_asked_for_fails_for_good(driven: Make) -> None:
    """Whatever the policy allows otherwise."""
    one = driven(2, **RETRY)
    one.faults = {1: [raises(gapless.DeadLetter("bad")), REFUSES]}
    for state in ("dead", "dead", "redriven"):
        one.driver.wake()
        one.drain()
        assert one.states() == {1: state}
        if state == "dead":
            ops.redrive_unit(one.conn, ops.GroupPlace.parse("sender/mails/0@1"))
    assert one.effects() == [1, 2]


@pytest.mark.parametrize(("deaths", "is_called"), [(1, True), (2, True), (3, False)])
def test_what_workers_died_of_is_called_alone_and_given_up_in_the_end(
    driven: Make, deaths: int, is_called: bool
) -> None:
    one = driven(4, agreed=MAX_2)
    one.died(1, 2, deaths)
    total = one.drain()
    assert one.effects() == ([1, 2, 3, 4] if is_called else [3, 4])
    assert one.states() == ({} if is_called else {1: "dead", 2: "dead"})
    assert (total["events"], total["dead"]) == (4, 0 if is_called else 2)


@pytest.mark.parametrize("fault", [CONFLICTS, runs("insert into late values (1)")])
def test_what_passes_gives_it_back(driven: Make, fault: Fault) -> None:
    one = driven(2, agreed=MAX_2)
    one.died(1, 1)
    one.faults = {1: [fault] * 2}
    for _ in range(5):
        one.driver.wake()
        with pytest.raises(psycopg.errors.SerializationFailure):
            one.drain()
        assert one.held == (0, 0, 0)
    one.faults.clear()
    one.driver.wake()
    one.drain()
    assert (one.effects(), one.states()) == ([1, 2], {}), "nobody died of it"


def test_what_is_due_and_what_is_open_take_turns(driven: Make) -> None:
    one = driven(12)
    one.died(1, 2)
    one.takes_s = GOES_ON_S
    for _ in range(5):
        one.turn(one=True)
    assert one.calls == [1, 3, 2, 4, 5]


# -- when it looks --------------------------------------------------------------------------------


def idle(one: Driven) -> bool:
    return one.turn().outcome == "idle"


def test_an_idle_one_looks_after_its_period_and_at_once_when_it_hears(driven: Make) -> None:
    one = driven(0)
    assert idle(one)
    assert one.driver.wait_s(one.turn()) == 3.0
    one.publish()
    one.now_s += 2.9
    assert idle(one), "it does not look yet"
    one.now_s += 0.1
    assert not idle(one)
    one.drain()
    (channel,) = one.driver.channels
    for channels, grew_only, is_there in (
        ([channel], True, True), (["another"], True, True), ([], True, False), ([channel], False, True),
    ):  # fmt: skip
        one.publish()
        one.driver.hear(channels, grew_only=grew_only)
        assert idle(one) is not is_there
        one.driver.wake()
        one.drain()
    assert one.effects() == list(range(1, one.events + 1))


def test_what_others_let_go_is_found_by_a_look_each_second_while_there_is_work(
    driven: Make, conn: Connection[Any]
) -> None:
    one = driven(200)
    receipt = one.queue.reserve(conn, 1, "1 h")[0][0]
    one.takes_s, began_s = GOES_ON_S, one.now_s
    one.turn(one=True)
    one.queue.call(conn, "release", receipt)
    while 1 not in one.calls:
        assert one.turn(one=True).outcome == "done"
    assert LOOK_BUSY_S <= one.now_s - began_s <= LOOK_BUSY_S + 3 * GOES_ON_S


def test_the_rest_of_a_block_in_hand_is_asked_for_again(driven: Make, dsn: str) -> None:
    """When events have just come; it is not left until the next look."""
    one = driven(0, block=4)
    assert idle(one)
    one.publish(4)
    with connect(dsn, role="test") as other:
        other.execute("begin")
        taken = one.queue.take(other, 1, most=2)
        one.driver.hear(one.driver.channels, grew_only=True)
        assert idle(one)
        assert one.driver.wait_s(one.turn()) == pytest.approx(SOON_S)
        one.queue.finish(other, taken)
    assert idle(one)
    one.now_s += SOON_S
    assert one.turn().events == 2


def test_now_and_then_the_floor_is_moved_without_a_look(driven: Make) -> None:
    one = driven(SWEEP_EVERY_CLAIMS + 6, batch_size=1)
    one.takes_s = GOES_ON_S / (SWEEP_EVERY_CLAIMS + 2)
    assert SWEEP_EVERY_CLAIMS < one.turn().events < SWEEP_EVERY_CLAIMS + 5
    assert one.queue.floor(one.conn) == 1
    one.turn()
    assert one.queue.floor(one.conn) > SWEEP_EVERY_CLAIMS
