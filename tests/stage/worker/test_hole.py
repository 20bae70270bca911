"""A hole in the log: its partition stops and says why, the others go on; mended, it goes on too."""

from __future__ import annotations

from pathlib import Path

import pytest

from stage.worker.fleet import Fleet, until
from stage.worker.ledger import assert_exactly_once

ERROR = "select error from gapless.lease where partition_id = %s"
HOLES = {
    "event": "gapless.outbox_message_t where payload->>'missing' is not null",
    "segment": "gapless.log_segment where partition_id = 0 and base_offset = 2",
}


def make_hole(fleet: Fleet, what: str, tmp_path: Path) -> None:
    """Take offset 2 of partition 0 out of the log, before its worker comes to it."""
    begun, go_on = tmp_path / "begun", tmp_path / "go on"
    fleet.publish({"once": str(begun), "wait_for": str(go_on)})
    until(begun.exists, "the worker is busy")
    segments = "select count(*) from gapless.log_segment"
    fleet.publish({"missing": True})
    until(lambda: fleet.value(segments) == 2, "it has its offset")
    fleet.publish()
    until(lambda: fleet.value(segments) == 3, "and the next one")
    fleet.conn.execute(f"create table kept as select * from {HOLES[what]}")
    assert fleet.conn.execute(f"delete from {HOLES[what]}").rowcount == 1
    go_on.touch()
    until(lambda: fleet.value(ERROR, 0), "the partition says why it stopped", within=fleet.state)


@pytest.mark.parametrize("what", HOLES)
def test_a_hole_stops_its_partition_only(fleet: Fleet, what: str, tmp_path: Path) -> None:
    a = fleet.start("a", patch={"gapless.worker.leased.HOLE_RETRY_S": 0.1})
    fleet.until_owners(a=4)
    make_hole(fleet, what, tmp_path)
    assert "stopped: " in fleet.value(ERROR, 0)
    fleet.publish({}, partition=1)
    until(lambda: fleet.value("select count(*) from ledger where partition_id = 1"), "others go on")
    assert fleet.value(ERROR, 1) is None
    assert a.log().count("stopped: ") == 1, "said once, not at every look"
    assert fleet.value("select count(*) from ledger where partition_id = 0") == 1

    fleet.conn.execute(f"insert into {HOLES[what].split()[0]} select * from kept")
    fleet.until_handled()
    until(lambda: fleet.value(ERROR, 0) is None, "all is well")
    assert_exactly_once(fleet.conn)


def test_a_worker_before_a_hole_is_not_taken_for_stopped(fleet: Fleet, tmp_path: Path) -> None:
    """It naps for longer than it may be silent, and says meanwhile that it lives; so do idle ones."""
    a = fleet.start(
        "a",
        connect_timeout_s=1,
        wait_period_ms=60_000,
        patch={"gapless.worker.nursery.SILENCE_S_MAX": 0.8},
    )
    fleet.until_owners(a=4)
    make_hole(fleet, "event", tmp_path)
    since = fleet.now()
    until(lambda: fleet.now() - since > 3.0, "longer than the silence allowed")
    assert not a.logged("killed")
