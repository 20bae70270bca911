"""Nothing rests on polling: each step of a hand-over wakes the next, whatever comes when.

All polls are made so rare here that a single wake-up that is lost costs seconds.
"""

from __future__ import annotations

import time
from signal import SIGTERM

import pytest

from stage.worker.fleet import Fleet, Instance, until
from stage.worker.ledger import assert_exactly_once

ROUNDS = 4
STEP_S_MAX = 60.0  # 0.7 s are the start of a process; a poll takes longer than a busy machine
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
