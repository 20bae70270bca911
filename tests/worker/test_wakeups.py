"""Nothing rests on polling: each step of a hand-over wakes the next, whatever comes when.

All polls are made so rare here that a single wake-up that is lost costs seconds.
"""

import time
from signal import SIGCONT, SIGSTOP, SIGTERM

import pytest

from support.fleet import Fleet, Instance, until
from support.ledger import assert_exactly_once, entries

ROUNDS = 4
STEP_S_MAX = 60.0  # 0.7 s are the start of a process; a poll takes longer than a busy machine
SEEKING = "select set_config('gapless.seeking', pg_current_xact_id()::text, true)"
AT_REST = """
select bool_and(state_change < clock_timestamp() - interval '0.3 s') from pg_stat_activity
where datname = current_database() and application_name like 'gapless/worker%%'
"""
RARELY = {
    "gapless.worker.supervisor.TICK_S": 120.0,
    "gapless.worker.supervisor.SUCCESSOR_WAIT_S": 120.0,
    "gapless.lease.hold.READY_EVERY_MS": 120_000,
    "gapless.worker.sequencer.ROLE_POLL_S": 120.0,
    "gapless.worker.states.LOCK_POLL_S": 120.0,
    "gapless.worker.states.LOCK_POLL_S_MAX": 120.0,
}


def start(fleet: Fleet, name: str) -> Instance:
    return fleet.start(
        name,
        patch=RARELY,
        presence_poll_ms=120_000,
        heartbeat_ms=120_000,
        member_ttl_ms=300_000,
        wait_period_ms=120_000,
        total_partitions=8,
    )


@pytest.mark.long
def test_joins_and_leaves_need_no_poll(fleet: Fleet) -> None:
    start(fleet, "a")
    fleet.until_owners(a=8)
    for number in range(ROUNDS):
        began = time.monotonic()
        guest = start(fleet, f"b{number}")
        fleet.until_owners(a=4, **{guest.name: 4})
        joined = time.monotonic()
        guest.signal(SIGTERM)
        assert guest.ended() == 0
        fleet.until_owners(a=8)
        left = time.monotonic()
        assert joined - began < STEP_S_MAX, "a wake-up was lost in a join"
        assert left - joined < STEP_S_MAX, "a wake-up was lost in a leave"
        for partition in range(8):
            fleet.publish(partition=partition, partitions=8)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


def test_the_sequencers_role_needs_no_poll(fleet: Fleet) -> None:
    a = start(fleet, "a")
    until(a.sequencer, "a sequences")
    b = start(fleet, "b")
    fleet.until_owners(a=4, b=4)
    a.signal(SIGTERM)
    until(b.sequencer, "b sequences", timeout_s=STEP_S_MAX, within=b.log)
    assert a.ended() == 0


@pytest.mark.parametrize("is_stopped", [False, True], ids=["found for it", "nobody looks for it"])
def test_what_nobody_told_of_is_found_within_the_period(fleet: Fleet, is_stopped: bool) -> None:
    """As when a notification is lost: somebody who has the right puts the group back by hand."""
    a = fleet.start("a", patch={"gapless.worker.states.OWN_LOOK_S": 3600.0}, member_ttl_ms=60_000)
    fleet.until_owners(a=4)
    fleet.publish(partition=0)
    fleet.until_handled()
    if is_stopped:
        a.signal(SIGSTOP)
    for _ in range(2):
        until(lambda: fleet.value(AT_REST), "workers rest")
        with fleet.conn.transaction():
            fleet.conn.execute(SEEKING)
            fleet.conn.execute("update gapless.consumer_offsets set next_offset = 1")
        began_s = time.monotonic()
        fleet.until_handled()
        assert time.monotonic() - began_s < STEP_S_MAX
    a.signal(SIGCONT)
    assert len(entries(fleet.conn)[0]) == 3
