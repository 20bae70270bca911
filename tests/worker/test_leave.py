"""SIGTERM and Ctrl-C: workers finish their batch, let go, and leave nothing behind."""

import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, SIGTERM, Signals

import pytest

from support.fleet import Fleet, Load, until
from support.ledger import assert_exactly_once, entries, handovers
from support.patience import patience

CLEAN = """
select (select count(*) from gapless.member) + (select count(*) from gapless.member_group)
  + (select count(*) from gapless.lease where owner is not null or target is not null)
  + (select count(*) from gapless.consumer_offsets where installed_offset is not null)
"""


@pytest.mark.long
def test_a_leaving_one_hands_over_under_load(
    fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    leaver = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.start("b")
    fleet.until_owners(a=2, b=2)
    with Load(fleet) as load:
        load.go_on()
        mark = fleet.now()
        leaver.signal(SIGTERM)
        assert leaver.ended() == 0
        fleet.until_owners(b=4)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    moved = [m for m in handovers(entries(fleet.conn)) if m.at > mark]
    assert len(moved) == 2
    pauses_ms = sorted(round(move.pause_s * 1000) for move in moved)
    record_property("pauses_ms", pauses_ms)
    print("pauses of a leave:", pauses_ms, "ms")  # noqa: T201
    assert pauses_ms[-1] < patience(0.5) * 1000
    assert leaver.logged("drained")


@pytest.mark.parametrize(
    "peer",
    [pytest.param(False, id="alone"), pytest.param(True, id="with a peer", marks=pytest.mark.long)],
)
def test_an_idle_one_leaves_within_a_second_whatever_the_wait_period(
    fleet: Fleet, peer: bool, record_property: Callable[[str, object], None]
) -> None:
    leaver = fleet.start("a", wait_period_ms=60_000)
    fleet.until_owners(a=4)
    if peer:
        fleet.start("b", wait_period_ms=60_000)
        fleet.until_owners(a=2, b=2)
    fleet.publish()
    fleet.until_handled()
    began = time.monotonic()
    leaver.signal(SIGTERM)
    assert leaver.ended() == 0
    took_s = time.monotonic() - began
    record_property("took_ms", round(took_s * 1000))
    print(f"idle exit: {took_s * 1000:.0f} ms")  # noqa: T201
    assert took_s < patience(20.0), "it waited for a poll, which is once a minute"
    if peer:
        fleet.until_owners(b=4)
    else:
        assert fleet.value(CLEAN) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "to_all"),
    [(SIGTERM, False), (SIGINT, True), (SIGTERM, True)],
    ids=["alone", "Ctrl-C", "systemd"],
)
def test_a_batch_in_the_making_is_finished(
    fleet: Fleet, tmp_path: Path, number: Signals, to_all: bool
) -> None:
    """A signal to the whole group drains once, as one to the supervisor does."""
    leaver = fleet.start("a")
    fleet.until_owners(a=4)
    begun = tmp_path / "begun"
    fleet.publish({"once": str(begun), "sleep_s": 0.5})
    until(begun.exists, "in the handler")
    (leaver.signal_all if to_all else leaver.signal)(number)
    assert leaver.ended() == 0
    assert leaver.log().count("supervisor: draining") == 1
    assert not leaver.deaths(), "no worker was killed"
    assert not leaver.logged("KeyboardInterrupt")
    assert_exactly_once(fleet.conn)
    assert fleet.value("select count(*) from ledger") == 1
    assert fleet.value(CLEAN) == 0


@pytest.mark.long
@pytest.mark.parametrize("how", ["second signal", "timeout"])
def test_a_drain_that_takes_too_long_is_cut_short(fleet: Fleet, how: str, tmp_path: Path) -> None:
    leaver = fleet.start("a", drain_timeout_ms=600 if how == "timeout" else 60_000)
    fleet.until_owners(a=4)
    begun = tmp_path / "begun"
    fleet.publish({"once": str(begun), "hang": True})
    until(begun.exists, "in the handler")
    leaver.signal(SIGTERM)
    if how == "second signal":
        until(lambda: leaver.logged("draining"), "drains")
        leaver.signal(SIGTERM)
    assert leaver.ended(5) == 0
    assert fleet.value("select count(*) from ledger") == 0
    fleet.start("b")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_it_drains_while_a_handler_cannot_succeed(fleet: Fleet) -> None:
    """A batch the environment keeps from succeeding is let go of, not waited for."""
    leaver = fleet.start("a", max_processing_ms=60_000)
    fleet.until_owners(a=4)
    fleet.publish({"sql": "do $$ begin raise exception 'no' using errcode = '40001'; end $$"})
    until(lambda: leaver.logged("will try again"), "the handler fails")
    leaver.signal(SIGTERM)
    assert leaver.ended(3) == 0
    assert not leaver.deaths(), "every worker ended by letting go"
    assert fleet.value(CLEAN) == 0
    assert fleet.value("select count(*) from gapless.dead_letter_queue") == 0


@pytest.mark.long
def test_it_drains_while_the_database_is_gone(fleet: Fleet) -> None:
    leaver = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.close_door()
    fleet.terminate("gapless/%")
    until(lambda: leaver.logged("connection lost, will be back"), "it noticed")
    leaver.signal(SIGTERM)
    assert leaver.ended(5) == 0


@pytest.mark.long
def test_a_drain_is_not_forgotten_while_the_database_is_gone(fleet: Fleet, tmp_path: Path) -> None:
    """Back again, it asks for no more partitions: the idle ones go to its peer at once."""
    leaver = fleet.start("a", member_ttl_ms=20_000, reconnect_grace_ms=20_000)
    fleet.until_owners(a=4)
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    fleet.publish({"once": str(begun), "wait_for": str(go_on)})
    until(begun.exists, "in the handler")
    fleet.close_door()
    fleet.terminate("gapless/supervisor")
    until(lambda: leaver.logged("connection lost, will be back"), "it noticed")
    leaver.signal(SIGTERM)
    until(lambda: leaver.logged("draining"), "it drains")
    fleet.open_door()
    fleet.start("b")
    fleet.until_owners(a=1, b=3)
    go_on.touch()
    assert leaver.ended() == 0
    fleet.until_owners(b=4)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_what_a_handler_prints_is_not_lost(fleet: Fleet) -> None:
    leaver = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.publish({"print": "said by the handler"})
    fleet.until_handled()
    leaver.signal(SIGTERM)
    assert leaver.ended() == 0
    assert leaver.logged("said by the handler")
