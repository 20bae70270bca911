"""What a run need not look at, for it was seen; and how that is known after a restore."""

import pytest

from gapless.log.sequence import sequence
from support.sequenced import SequencedLog


@pytest.mark.parametrize("who", ["seen", "open", "gone"])
def test_stragglers(still: SequencedLog, who: str) -> None:
    """Whoever was in progress at a restore may have ids below the floor; who has ended is none any more."""
    log, topic_id = still, still.topic(1)
    beside = log.topic(1)
    log.publish(topic_id)
    sequence(log.conn)
    with log.open():
        xid = str(log.other.execute("select pg_current_xact_id()::text").fetchone()[0])  # type: ignore[index]
        low = log.publish(topic_id, conn=log.other)
        log.publish(beside)
        assert sequence(log.conn) == 1
        log.conn.execute(
            "update gapless.sequencer set stragglers = array[%s, '3']::xid8[], floor_id = %s,"
            " snapshot = pg_current_snapshot(), next_floor_xid = '9000000000000'"
            " where run = (select max(run) from gapless.sequencer)",
            [xid, low],
        )
        if who != "gone":
            assert sequence(log.conn) == 0
            if who == "open":
                log.publish(beside)
                assert sequence(log.conn) == 1
                assert log.state().stragglers == [xid]
                assert log.state().floor_id == low
    assert sequence(log.conn) == 1
    assert [row[3] for row in log.segments(topic_id)][-1] == [low]
    assert log.state().stragglers == []


def test_of_stragglers_what_has_its_place_keeps_it(still: SequencedLog) -> None:
    log, topic_id = still, still.topic(1)
    for _ in range(2):
        last = log.publish(topic_id)
    sequence(log.conn)
    state = log.state()
    log.conn.execute(
        "update gapless.sequencer set floor_id = %s, stragglers ="
        " array(select xid from gapless.outbox_message_t where id = %s) where run = %s",
        [last, last, state.run],
    )
    assert sequence(log.conn) == 0
    more = log.publish(topic_id)
    assert sequence(log.conn) == 1
    assert [row[3] for row in log.segments(topic_id)][1:] == [[more]]


# What the newest row remembers, and nothing is pending: {last} is the newest event's id, {xid} its transaction, {gone}
# one that was seen and has no offset.
SEEN = {
    "by its xid": "floor_id = 0, snapshot = ({xid} + 1 || ':' || {xid} + 1 || ':')::pg_snapshot",
    "by its id": "floor_id = {last}, snapshot = '5:5:'",
    "by its id, in progress": "floor_id = {last}, snapshot = ('5:' || {xid} + 1 || ':' || {xid})::pg_snapshot",
    "with others in progress": "floor_id = 0, snapshot = ('5:' || {xid} + 1 || ':5')::pg_snapshot",
    "as a straggler": "floor_id = {last}, stragglers = array['{xid}']::xid8[], snapshot = '5:5:'",
    "beside a straggler": "floor_id = {last}, stragglers = array['3']::xid8[], snapshot = '5:5:'",
    "as a straggler above": (
        "floor_id = {last} - 1, stragglers = array['{xid}', '{gone}']::xid8[],"
        " snapshot = ({xid} + 1 || ':' || {xid} + 1 || ':')::pg_snapshot"
    ),
}


@pytest.mark.parametrize("how", SEEN)
def test_what_was_seen_is_not_looked_at_again(still: SequencedLog, how: str) -> None:
    """No run that finds nothing; and one that finds something finds only that. Some seen ones have no offset."""
    log, topic_id = still, still.topic(1)
    forgotten = log.publish(topic_id)
    xid_of = "select xid::text::bigint from gapless.outbox_message_t where id = %s"
    (gone,) = log.row(xid_of, forgotten)
    sequence(log.conn)
    log.conn.execute("delete from gapless.log_segment where topic_id = %s", [topic_id])
    last = log.publish(topic_id)
    sequence(log.conn)
    (xid,) = log.row(xid_of, last)
    assert last == log.allocated()
    log.conn.execute(
        f"update gapless.sequencer set {SEEN[how].format(last=last, xid=xid, gone=3)},"  # type: ignore[arg-type]
        f" next_floor_xid = '9000000000000' where run = {log.state().run}"
    )
    before = log.state()
    assert gone < xid
    assert sequence(log.conn) == 0
    assert log.state() == before
    more = log.publish(topic_id)
    assert sequence(log.conn) == 1
    assert [row[3] for row in log.segments(topic_id)] == [[last], [more]]
    log.conn.execute("delete from gapless.outbox_message_t where id = %s", [forgotten])


def test_the_first_that_a_run_could_not_see(still: SequencedLog) -> None:
    """Its xid is the one that the run's snapshot ends with."""
    log, topic_id = still, still.topic(1)
    event = log.publish(topic_id)
    log.conn.execute(
        "update gapless.sequencer set floor_id = 0, snapshot ="
        " (select (xid::text || ':' || xid::text || ':')::pg_snapshot from gapless.outbox_message_t where id = %s)"
        " where run = (select max(run) from gapless.sequencer)",
        [event],
    )
    assert sequence(log.conn) == 1
    assert [row[3] for row in log.segments(topic_id)] == [[event]]


def test_where_no_xid_was_used_since_the_log_is_the_same(still: SequencedLog) -> None:
    log = still
    log.conn.execute(
        "update gapless.sequencer set floor_id = %s, next_floor_xid = '9000000000000', snapshot ="
        " (select (x || ':' || x || ':')::pg_snapshot from (select pg_current_xact_id()::text::bigint + 1 as x) n)"
        " where run = (select max(run) from gapless.sequencer)",
        [log.allocated()],
    )
    before = log.state()
    assert sequence(log.conn) == 0
    assert log.state() == before


def test_a_log_from_another_cluster(still: SequencedLog) -> None:
    """What has an offset keeps it, what has none gets one, below the floor and above it."""
    log, topic_id = still, still.topic(1)
    known = [log.publish(topic_id) for _ in range(3)]
    sequence(log.conn)
    lost = [log.publish(topic_id) for _ in range(2)]
    log.conn.execute(
        "update gapless.sequencer set system_identifier = 1, floor_id = %s,"
        " snapshot = pg_current_snapshot() where run = (select max(run) from gapless.sequencer)",
        [lost[0]],
    )
    identifier = log.row("select system_identifier from pg_control_system()")[0]
    assert sequence(log.conn) == 2
    assert [row[3] for row in log.segments(topic_id)] == [known, lost]
    assert log.state().system_identifier == identifier
    log.publish(topic_id)
    assert sequence(log.conn) == 1


def test_a_log_from_another_cluster_that_is_used_already(still: SequencedLog) -> None:
    """The newest id is the last of its chunk, so it is the floor; and somebody is in mid-transaction."""
    log, topic_id = still, still.topic(1)
    (size,) = log.row("select chunk_events from gapless.log_config")
    end = (log.allocated() // size + 1) * size - 1
    log.conn.execute("select setval('gapless.outbox_message_id_seq', %s, false)", [end])
    with log.open():
        assert log.publish(topic_id) == end
        log.conn.execute(
            "update gapless.sequencer set system_identifier = 1"
            " where run = (select max(run) from gapless.sequencer)"
        )
        (xid,) = log.other.execute("select pg_current_xact_id()::text").fetchone() or ()
        log.conn.execute(
            "select gapless.create_group('g', name) from gapless.topic where topic_id = %s",
            [topic_id],
        )
        log.conn.execute(
            "update gapless.consumer_offsets set next_offset = 3 where topic_id = %s", [topic_id]
        )
        assert sequence(log.conn) == 1
        state = log.state()
        assert (state.floor_id, state.stragglers) == (end, [xid])
        own = log.row(
            "select pg_snapshot_xmax(snapshot)::text::bigint from gapless.sequencer where run = %s",
            state.run,
        )[0]
        assert state.next_floor_xid == own + 1
        stopped = "select stopped_at from gapless.consumer_offsets where topic_id = %s"
        assert log.row(stopped, topic_id) == (1,)
        late = log.publish(topic_id, conn=log.other)
    assert late > end
    assert sequence(log.conn) == 1
    assert [row[3] for row in log.segments(topic_id)] == [[end], [late]]


def test_a_snapshot_from_the_future_is_of_another_cluster(still: SequencedLog) -> None:
    log, topic_id = still, still.topic(1)
    waiting = log.publish(topic_id)
    log.conn.execute(
        "update gapless.sequencer set snapshot = '9000000000000:9000000000000:'"
        " where run = (select max(run) from gapless.sequencer)"
    )
    assert sequence(log.conn) == 1
    assert [row[3] for row in log.segments(topic_id)] == [[waiting]]
