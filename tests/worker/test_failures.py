"""Failure policies with real supervisors, and kills wherever it hurts (I6, I8, I9)."""

import json
import os
from signal import SIGKILL

import psycopg
import pytest

from support.fleet import Fleet, until
from support.ledger import assert_all_once, assert_exactly_once, entries
from support.long import long_but

AGAIN = {"on_failure": "retry", "retry_delays_s": [0, 0]}
PARK = {"on_failure": "park-key", "retry_delays_s": [0, 0, 0]}
POINTS = ("aside.recorded", "aside.claimed", "aside.handled")


def handled(fleet: Fleet, partition: int = 0) -> list[int]:
    return [entry.c_offset for entry in entries(fleet.conn).get(partition, [])]


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_one_that_blocks_waits_longer_each_time_whatever_others_do(fleet: Fleet) -> None:
    """Units of other keys, finished ahead of it, are no success of its own."""
    how: dict[str, object] = {"delivery": "at-least-once", "concurrency": 4, "on_failure": "block"}
    a = fleet.start("a", total_partitions=1, **how)
    until(lambda: fleet.owners() == {"a": 1}, "it owns the partition", within=a.log)
    for n in range(400):
        payload = json.dumps({"raise": "not yet"} if n == 0 else {})
        fleet.conn.execute("select gapless.publish('t', %s::json, %s)", [payload, str(n)])
    told = "select error from gapless.lease where error like '%%(attempt 4)'"
    until(lambda: fleet.value(told), "its count grows", within=a.log)
    assert fleet.value("select count(distinct c_offset) from called") < 200


@pytest.mark.long
def test_a_killer_among_the_retries(fleet: Fleet) -> None:
    """It fails first, then kills its worker: known by its tries, and the others are retried."""
    soon = {"gapless.worker.retries.BACKOFF_S_MAX": 0.1}
    fleet.start("a", patch=soon, max_crashes=2, **AGAIN)
    fleet.until_owners(a=4)
    again: dict[str, object] = {"attempts": [1, 1], "raise": "not yet"}
    fleet.publish(again, {**again, "else": {"kill": True}}, again, {})
    fleet.until_settled(40)
    assert fleet.states() == {(0, 2): "dead"}
    reason = fleet.value("select reason from gapless.dead_letter")
    assert "2 times while handling it; the last one: signal SIGKILL" in reason
    assert sorted(handled(fleet)) == [1, 3, 4]


@pytest.mark.long
@pytest.mark.parametrize("point", long_but(POINTS, "aside.handled"))
def test_killed_at_every_point_of_a_retry(
    fleet: Fleet, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every worker handles one of them and is killed at the next: all are handled, each once."""
    monkeypatch.setenv("GAPLESS_FAILPOINTS", f"{point}=kill@2")
    soon = {"gapless.worker.retries.BACKOFF_S_MAX": 0.1}
    fleet.start("a", patch=soon, max_crashes=50, **PARK)
    fleet.until_owners(a=4)
    again: dict[str, object] = {"attempts": [1, 1], "raise": "not yet"}
    fleet.publish(again, {}, again, again, {}, again)
    fleet.until_settled(60)
    assert fleet.states() == {}
    assert handled(fleet) == [1, 2, 3, 4, 5, 6], "one key: in order"
    assert_all_once(fleet.conn)


@pytest.mark.long
def test_park_key_keeps_the_order_over_kills_and_hand_overs(fleet: Fleet) -> None:
    soon = {"gapless.worker.retries.BACKOFF_S_MAX": 0.1}
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


@pytest.mark.long
def test_at_least_once_over_kills(fleet: Fleet) -> None:
    """Every unit is called and its end written down; only those in hand at a kill are repeated."""
    soon = {"gapless.worker.retries.BACKOFF_S_MAX": 0.1}
    a = fleet.start("a", patch=soon, delivery="at-least-once", concurrency=3, max_crashes=50)
    fleet.until_owners(a=4)
    keys = [k for k in (f"k{n}" for n in range(200)) if _partition(fleet, k) == 0][:5]
    kills = 4
    for n in range(100):
        _publish(fleet, keys[n % 5], {"sleep_s": 0.01})
    for kill in range(kills):
        goal = 20 * (kill + 1)
        until(lambda goal=goal: _called(fleet) >= goal, "so many were called", within=a.log)
        pid = until(lambda: a.worker("g/t/0"), "a worker", within=a.log)
        os.kill(pid, SIGKILL)
    fleet.until_settled(60)
    assert fleet.states() == {}
    rows = fleet.conn.execute(
        "select c_offset, count(*), count(ended), count(distinct idempotency_key), max(attempt)"
        " from called group by 1 order by 1"
    ).fetchall()
    assert [row[0] for row in rows] == list(range(1, 101))
    assert all(ended >= 1 and names == 1 for _, _, ended, names, _ in rows)
    # One that was killed after its beginning was noted, and before it did anything, left no call.
    assert all(calls <= attempts for _, calls, _, _, attempts in rows), "each is told its attempt"
    assert sum(calls - 1 for _, calls, *_ in rows) <= 3 * kills


@pytest.mark.long
def test_at_least_once_a_call_that_hangs_is_found_while_others_go_on(fleet: Fleet) -> None:
    """It is its own time that counts, not that since any call ended."""
    soon = {"gapless.worker.retries.BACKOFF_S_MAX": 0.1}
    settings = {"delivery": "at-least-once", "concurrency": 2, "max_crashes": 2}
    fleet.start("a", patch=soon, max_processing_ms=2000, **settings)
    fleet.until_owners(a=4)
    keys = [k for k in (f"k{n}" for n in range(200)) if _partition(fleet, k) == 0][:2]
    _publish(fleet, keys[0], {"hang": True})
    for _ in range(600):
        _publish(fleet, keys[1], {"sleep_s": 0.02})
    fleet.until_settled(60)
    assert fleet.states() == {(0, 1): "dead"}
    dead = "select min(died_ts) from gapless.dead_letter"
    assert fleet.value(f"select count(*) from called where ended > ({dead})") > 0, "found in time"


def _called(fleet: Fleet) -> int:
    return int(fleet.value("select count(distinct c_offset) from called"))
