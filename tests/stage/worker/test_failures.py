"""Failure policies with real supervisors, and kills wherever it hurts (I6, I8, I9)."""

from __future__ import annotations

import os
import threading
from signal import SIGKILL

import psycopg
import pytest

from stage.worker.fleet import Fleet, until
from stage.worker.ledger import assert_all_once, assert_exactly_once, entries

AGAIN = {"on_failure": "retry", "retry_delays_s": [0, 0]}
PARK = {"on_failure": "park-key", "retry_delays_s": [0, 0, 0]}
POINTS = ("letter.recorded", "letter.claimed", "letter.handled", "letter.finished")


def handled(fleet: Fleet, partition: int = 0) -> list[int]:
    return [entry.c_offset for entry in entries(fleet.conn).get(partition, [])]


def test_retries_go_through_and_nothing_is_kept(fleet: Fleet) -> None:
    fleet.start("a", **AGAIN)
    fleet.until_owners(a=4)
    fleet.publish({}, {"attempts": [1, 2], "raise": "not yet"}, {})
    fleet.until_settled()
    assert sorted(handled(fleet)) == [1, 2, 3]
    assert fleet.states() == {}


def test_a_redrive_wakes_an_idle_worker(fleet: Fleet) -> None:
    """No poll is in time here: the notification, and the next due time, must do."""
    fleet.start("a", wait_period_ms=60_000, on_failure="retry", retry_delays_s=[1])
    fleet.until_owners(a=4)
    fleet.publish({"attempts": [1, 2], "raise": "not yet"})
    until(lambda: fleet.states() == {(0, 1): "dead"}, "it died at its second attempt")
    assert fleet.redrive(0, 1) == "asked"
    fleet.until_settled()
    assert fleet.states() == {(0, 1): "redriven"}
    assert handled(fleet) == [1]


def test_an_idle_worker_writes_nothing_while_something_waits(fleet: Fleet) -> None:
    fleet.start("a", wait_period_ms=10, on_failure="retry", retry_delays_s=[3600])
    fleet.until_owners(a=4)
    fleet.publish({"raise": "no"})
    until(lambda: fleet.states() == {(0, 1): "waiting"}, "it waits")
    rows = (
        "select array(select (ctid, xmin)::text from gapless.dead_letter),"
        " array(select (ctid, xmin)::text from gapless.consumer_offsets order by partition_id)"
    )
    looks = "select sum(seq_scan + idx_scan) from pg_stat_user_tables where relname = 'dead_letter'"
    before, began = fleet.conn.execute(rows).fetchall(), fleet.value(looks)
    until(lambda: fleet.value(looks) > began + 20, "the worker looks")
    assert fleet.conn.execute(rows).fetchall() == before


def test_blocked_is_seen_and_goes_on_when_mended(fleet: Fleet) -> None:
    fleet.start("a", on_failure="block")
    fleet.until_owners(a=4)
    fleet.publish({}, {"sql": "select from mended"}, {})
    fleet.publish({}, partition=1)
    until(lambda: handled(fleet, 1) == [1], "the other partitions go on")
    error = until(
        lambda: fleet.value("select error from gapless.lease where partition_id = 0"), "is seen"
    )
    assert "blocked at g/t/0@2: UndefinedTable" in error
    assert handled(fleet) == [1]
    fleet.conn.execute("create table mended ()")
    fleet.until_settled()
    assert_exactly_once(fleet.conn)
    assert fleet.value("select error from gapless.lease where partition_id = 0") is None


ENDS = {
    "killed": ({"kill": True}, "signal SIGKILL (out of memory?)"),
    "segmentation fault": ({"segv": True}, "signal SIGSEGV"),
    "exits": ({"exit": 7}, "exit code 7"),
    "hangs": ({"hang": True}, "signal SIGKILL: it took longer than 400 ms"),
    "hangs in C": ({"hang_in_c": True}, "signal SIGKILL: it took longer than 400 ms"),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("policy", [{}, PARK], ids=["dead-letter", "park-key"])
def test_how_its_worker_ended_is_in_the_letter(
    fleet: Fleet, name: str, policy: dict[str, object]
) -> None:
    deed, words = ENDS[name]
    fleet.start("a", max_processing_ms=400, max_crashes=2, **policy)
    fleet.until_owners(a=4)
    fleet.publish({}, deed, {}, partition=0)
    fleet.publish({}, partition=1)
    fleet.until_handled(40)
    crashes, reason = fleet.conn.execute(
        "select attempts, reason from gapless.dead_letter where first_offset = 2"
    ).fetchone() or (0, "")
    assert crashes == 2
    assert f"2 times while handling it; the last one: {words}" in reason
    assert_all_once(fleet.conn)


def test_a_killer_among_the_retries(fleet: Fleet) -> None:
    """It fails first, then kills its worker: known by its tries, and the others are retried."""
    soon = {"gapless.worker.nursery.BACKOFF_S_MAX": 0.1}
    fleet.start("a", patch=soon, max_crashes=2, **AGAIN)
    fleet.until_owners(a=4)
    again: dict[str, object] = {"attempts": [1, 1], "raise": "not yet"}
    fleet.publish(again, {**again, "else": {"kill": True}}, again, {})
    fleet.until_settled(40)
    assert fleet.states() == {(0, 2): "dead"}
    reason = fleet.value("select reason from gapless.dead_letter")
    assert "2 times while handling it; the last one: signal SIGKILL" in reason
    assert sorted(handled(fleet)) == [1, 3, 4]


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_every_point_of_a_retry(
    fleet: Fleet, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every worker handles one of them and is killed at the next: all are handled, each once."""
    monkeypatch.setenv("GAPLESS_FAILPOINTS", f"{point}=kill@2")
    soon = {"gapless.worker.nursery.BACKOFF_S_MAX": 0.1}
    fleet.start("a", patch=soon, max_crashes=50, **PARK)
    fleet.until_owners(a=4)
    again: dict[str, object] = {"attempts": [1, 1], "raise": "not yet"}
    fleet.publish(again, {}, again, again, {}, again)
    fleet.until_settled(60)
    assert fleet.states() == {}
    assert handled(fleet) == [1, 2, 3, 4, 5, 6], "one key: in order"
    assert_all_once(fleet.conn)


def test_two_people_redrive_while_workers_are_killed(fleet: Fleet) -> None:
    a = fleet.start("a", patch={"gapless.worker.nursery.BACKOFF_S_MAX": 0.1}, max_crashes=100)
    fleet.until_owners(a=4)
    for partition in range(4):
        fleet.publish(*[{"attempts": [1, 1], "raise": "no"}] * 30, partition=partition)
    fleet.until_handled(40)
    assert set(fleet.states().values()) == {"dead"}
    letters = list(fleet.states())

    def redrive_all() -> None:
        with psycopg.connect(fleet.dsn, autocommit=True) as conn:
            for partition, offset in letters:
                fleet.redrive(partition, offset, conn)

    people = [threading.Thread(target=redrive_all) for _ in range(2)]
    for each in people:
        each.start()
    for partition in range(4):
        pid = a.worker(f"g/t/{partition}")
        if pid is not None:
            os.kill(pid, SIGKILL)
    for each in people:
        each.join()
    fleet.until_settled(60)
    assert set(fleet.states().values()) == {"redriven"}
    assert_all_once(fleet.conn)


def test_park_key_keeps_the_order_over_kills_and_hand_overs(fleet: Fleet) -> None:
    soon = {"gapless.worker.nursery.BACKOFF_S_MAX": 0.1}
    a = fleet.start("a", patch=soon, **PARK)
    fleet.until_owners(a=4)
    keys = [k for k in (f"k{n}" for n in range(200)) if _partition(fleet, k) == 0][:5]
    for n in range(60):
        failing = {"attempts": [1, n % 3], "raise": "not yet"} if n % 4 == 0 else {}
        _publish(fleet, keys[n % 5], failing)
        if n % 20 == 10:
            pid = a.worker("g/t/0")
            if pid is not None:
                os.kill(pid, SIGKILL)
        if n == 30:
            fleet.start("b", patch=soon, **PARK)
    fleet.until_settled(60)
    assert fleet.states() == {}
    assert_all_once(fleet.conn)
    key_of = dict(fleet.conn.execute("select c_offset, key from gapless.read('t', 0)").fetchall())
    offsets = handled(fleet)
    for key in keys:
        own = [offset for offset in offsets if key_of[offset] == key]
        assert own == sorted(own), key


def _partition(fleet: Fleet, key: str) -> int:
    return int(fleet.value("select gapless.partition_of(%s, 4)", key))


def _publish(fleet: Fleet, key: str, payload: dict[str, object]) -> None:
    fleet.conn.execute(
        "select gapless.publish('t', %s, %s)", [psycopg.types.json.Json(payload), key]
    )
