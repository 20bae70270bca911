"""What one run of the sequencer writes, row by row, in a log that has other topics and partitions."""

import pytest

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from support.sequenced import SequencedLog

A, B = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2))


def test_what_a_run_writes(still: SequencedLog) -> None:
    """Two topics, two partitions of each; a layout of its own; offsets that go on."""
    log, one, two = still, still.topic(layout=3), still.topic()
    keys = [log.key(0), log.key(1)]
    for topic_id, times in ((one, 1), (two, 4)):
        for _ in range(times):
            log.publish(topic_id, keys[1])
    assert sequence(log.conn) == 5
    before = log.state()
    with log.conn.transaction():
        ids = [log.publish(topic_id, key) for key in keys for topic_id in (one, two, one)]
    assert sequence(log.conn) == 6
    run = before.run + 1
    timeline = log.row("select gapless.timeline()")[0]
    assert log.segments(one, before.run) == [
        (0, 1, 2, [ids[0], ids[2]], "01", run, 3, timeline),
        (1, 2, 3, [ids[3], ids[5]], "01", run, 3, timeline),
    ]
    assert log.segments(two, before.run) == [
        (0, 1, 1, [ids[1]], "1", run, 0, timeline),
        (1, 5, 5, [ids[4]], "1", run, 0, timeline),
    ]
    after = log.state()
    assert (after.run, after.events, after.has_unrouted) == (run, 6, False)
    assert after.system_identifier == before.system_identifier
    assert sequence(log.conn) == 0
    assert log.state().run - run <= 1, "for the floor, once"


def test_the_last_id_of_a_transaction_orders_it(still: SequencedLog) -> None:
    log, topic_id, elsewhere = still, still.topic(), still.topic()
    with log.open():
        ids = [log.publish(topic_id, conn=log.other), log.publish(elsewhere)]
        ids += [log.publish(topic_id), log.publish(topic_id, conn=log.other), log.publish(topic_id)]
    sequence(log.conn)
    (_, found, ends) = log.units(topic_id)[0]
    assert (found, ends) == ([ids[2], ids[0], ids[3], ids[4]], "1011")


def test_where_units_end(still: SequencedLog) -> None:
    """Where the transaction, its name or its cause is another one than the next event's."""
    log, topic_id = still, still.topic(1)
    cause = "1:0:%d"
    with log.conn.transaction():
        for transaction_id, why in (
            (None, None), (None, None), (A, None), (A, cause % 1), (A, cause % 1), (A, cause % 2),
            (B, cause % 2), (None, cause % 2),
        ):  # fmt: skip
            log.publish(topic_id, "k", transaction_id, why)
    with log.conn.transaction():
        log.publish(topic_id, "k", None, cause % 2)
        log.publish(topic_id, "k")
    for _ in range(2):
        log.publish(topic_id, "k", A)
    sequence(log.conn)
    ((_, _, ends),) = log.units(topic_id)
    assert ends == "01101111" + "11" + "11"


def test_segments_of_two_hundred(still: SequencedLog) -> None:
    log, topic_id = still, still.topic(1)
    log.publish(topic_id)
    sequence(log.conn)
    before = log.state()
    log.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key)"
        " select %s, 'k' from generate_series(1, 401)",
        [topic_id],
    )
    last = log.allocated()
    sequence(log.conn)
    found = [
        (base, end, ids, ends) for _, base, end, ids, ends, *_ in log.segments(topic_id, before.run)
    ]
    assert found == [
        (2, 201, list(range(last - 400, last - 200)), "0" * 200),
        (202, 401, list(range(last - 200, last)), "0" * 200),
        (402, 402, [last], "1"),
    ]


def test_where_the_floor_is(still: SequencedLog) -> None:
    """It follows by one run, and waits for whoever runs; ids that were burnt count."""
    log, topic_id = still, still.topic(1)
    first = log.state()
    assert (first.floor_id, first.next_floor_id, first.stragglers) == (
        log.allocated() - 1, log.allocated(), [],
    )  # fmt: skip
    with log.open():
        late = log.publish(topic_id, conn=log.other)
        log.publish(topic_id)
        sequence(log.conn)
        second = log.state()
        # Who has begun since the first run has no id that it gave.
        assert (second.floor_id, second.next_floor_id) == (first.next_floor_id, log.allocated())
        xid = log.row("select max(xid::text::bigint) from gapless.outbox_message_t")[0]
        assert second.next_floor_xid == xid + 1
        log.publish(topic_id)
        sequence(log.conn)
        third = log.state()
        assert third.floor_id == second.floor_id < late
        assert (third.next_floor_id, third.next_floor_xid) == (
            second.next_floor_id,
            second.next_floor_xid,
        )
    assert sequence(log.conn) == 1
    assert log.state().floor_id == second.next_floor_id
    assert sequence(log.conn) == 0
    assert [row[3] for row in log.segments(topic_id, third.run)] == [[late]]
    assert log.segments(topic_id)[-1][2] == 3


def test_a_number_that_nobody_has_taken(still: SequencedLog) -> None:
    """Of a sequence that was set, but not called: the one before is the last that counts."""
    log = still
    number = log.allocated() + 10
    log.conn.execute("select setval('gapless.outbox_message_id_seq', %s, false)", [number])
    log.conn.execute(
        "insert into gapless.outbox_message_t (id, topic_id, key) values (%s, %s, 'k')",
        [number - 1, log.passing],
    )
    assert sequence(log.conn) == 1
    assert log.state().next_floor_id == number - 1


def test_who_is_told(still: SequencedLog, module_dsn: str) -> None:
    """The partitions that have grown, each once."""
    log, topic_id, other = still, still.topic(), still.topic()
    log.publish(other)
    sequence(log.conn)
    names = [f"gapless_p_{each}_{n}" for each in (topic_id, other) for n in range(2)]
    with connect(module_dsn, role="listener") as listener:
        for name in names:
            listener.execute(f"listen {name}")  # type: ignore[arg-type]
        for _ in range(2):
            log.publish(topic_id, log.key(1))
        sequence(log.conn)
        listener.execute("select 1")
        told = [each.channel for each in listener.notifies(timeout=5, stop_after=1)]
        told += [each.channel for each in listener.notifies(timeout=0)]
    assert told == [names[1]]


@pytest.mark.parametrize(("run", "kept"), [(999, True), (1000, False), (1001, True)])
def test_old_runs_are_forgotten_every_thousand(still: SequencedLog, run: int, kept: bool) -> None:
    log, topic_id = still, still.topic(1)
    with log.conn.transaction():
        log.conn.execute(
            "delete from gapless.sequencer where run < (select max(run) from gapless.sequencer)"
        )
        log.conn.execute("update gapless.sequencer set run = %s", [7_000_000 + run - 1])
        log.conn.execute(
            "insert into gapless.sequencer select (jsonb_populate_record(s, jsonb_build_object('run', r))).*"
            " from gapless.sequencer s, unnest(array[1, s.run - 1001, s.run - 1000, s.run - 1]) r"
        )
    log.publish(topic_id)
    sequence(log.conn)
    found = [row[0] for row in log.conn.execute("select run from gapless.sequencer order by 1")]
    last = 7_000_000 + run
    assert found == ([1, last - 1002] if kept else []) + [last - 1001, last - 2, last - 1, last]
