"""Events of ids that nobody has made a topic of: how runs count them, and what becomes of them with one."""

from itertools import count

import pytest

from gapless.log.sequence import sequence
from support.sequenced import SequencedLog

_ids = count(50_001, 1000)  # of topics that nobody has made


def test_events_without_a_topic_are_counted(still: SequencedLog) -> None:
    log, topic_id = still, still.topic(1)
    low, high = next(_ids), next(_ids)
    ids = [log.publish(each) for each in (high, low, topic_id, high, low, low)]
    before = log.state()
    assert sequence(log.conn) == 1
    assert log.unrouted() == [(low, 3, ids[1], ids[5]), (high, 2, ids[0], ids[3])]
    assert (log.state().run, log.state().has_unrouted) == (before.run + 1, True)
    last = log.publish(low)
    log.publish(topic_id)
    assert sequence(log.conn) == 1
    assert log.unrouted()[0] == (low, 4, ids[1], last)
    log.publish(topic_id)
    assert sequence(log.conn) == 1
    assert log.state().has_unrouted
    log.conn.execute(
        "update gapless.unrouted set first_id = %s where topic_id = %s", [last + 9, low]
    )
    more = log.publish(low)
    assert sequence(log.conn) == 0
    assert log.unrouted()[0] == (low, 5, more, more)


def test_no_more_than_a_hundred_ids_are_told_apart(still: SequencedLog) -> None:
    """Those that are known go on being counted; of others, the lowest get the rows that are left."""
    log, base = still, next(_ids)
    next(_ids)
    old = base + 500
    log.publish(old)
    sequence(log.conn)
    log.conn.execute(
        "insert into gapless.unrouted (topic_id, events, first_id, last_id)"
        " select %s + n, 1, 1, 1 from generate_series(0, 96) n",
        [base + 600],
    )
    ids = [log.publish(each) for each in (base + 2, base + 1, old, base, base + 3, base + 2)]
    sequence(log.conn)
    found = {row[0]: row[1:] for row in log.unrouted() if row[0] < base + 600}
    assert found == {
        base: (1, ids[3], ids[3]),
        base + 1: (1, ids[1], ids[1]),
        old: (2, found[old][1], ids[2]),
        0: (3, ids[0], ids[5]),
    }


@pytest.mark.parametrize("floor", ["below", "above", "stragglers"])
def test_an_id_that_becomes_a_topic(still: SequencedLog, floor: str) -> None:
    """Its events get their offsets, once, before newer ones; those of another id stay."""
    log, mine, theirs = still, next(_ids), next(_ids)
    old = [log.publish(each) for each in (mine, theirs, mine, theirs, mine)]
    assert sequence(log.conn) == 0
    if floor == "below":
        log.conn.execute(
            "update gapless.sequencer set floor_id = %s, snapshot = '5:5:' where run = %s",
            [log.allocated(), log.state().run],
        )
    elif floor == "stragglers":
        log.conn.execute(
            "update gapless.sequencer set floor_id = %s, snapshot = '5:5:', stragglers ="
            " array(select xid from gapless.outbox_message_t where id = %s) || '{3}'::xid8[] where run = %s",
            [log.allocated(), old[2], log.state().run],
        )
    log.conn.execute(
        "select gapless.adopt_topic(%s, %s, 1)", [mine, f"adopted {mine}".replace(" ", "-")]
    )
    new = log.publish(mine)
    before = log.state()
    assert sequence(log.conn) == 4
    ids = [each for row in log.segments(mine, before.run) for each in row[3]]
    assert ids == [old[0], old[2], old[4], new]
    assert log.unrouted() == [(theirs, 2, old[1], old[3])]
    assert log.state().has_unrouted
    log.conn.execute("select gapless.adopt_topic(%s, %s, 1)", [theirs, f"adopted-{theirs}"])
    assert sequence(log.conn) == 2
    assert log.unrouted() == []
    assert not log.state().has_unrouted
    log.publish(mine)
    assert sequence(log.conn) == 1


def test_two_ids_that_become_topics_at_once(still: SequencedLog) -> None:
    """One had an event in progress, between those that were seen: it has its place once."""
    log, mine, theirs = still, next(_ids), next(_ids)
    ids = {mine: [log.publish(mine)], theirs: []}
    with log.open():
        late = log.publish(mine, conn=log.other)
        ids[theirs] += [log.publish(theirs), log.publish(theirs)]
        assert sequence(log.conn) == 0
        for each in (mine, theirs):
            log.conn.execute("select gapless.adopt_topic(%s, %s, 1)", [each, f"adopted-{each}"])
    ids[mine].append(late)
    assert sequence(log.conn) == 4
    for each, its in ids.items():
        assert [row[3] for row in log.segments(each)] == [its]


def test_of_an_adopted_topic_what_has_its_place_keeps_it(still: SequencedLog) -> None:
    log, topic_id = still, still.topic(1)
    ids = [log.publish(topic_id) for _ in range(3)]
    assert sequence(log.conn) == 3
    log.conn.execute(
        "insert into gapless.unrouted (topic_id, events, first_id, last_id) values (%s, 3, %s, %s)",
        [topic_id, ids[0], ids[2]],
    )
    log.conn.execute("update gapless.sequencer set has_unrouted = true")
    assert sequence(log.conn) == 0
    assert log.unrouted() == []
    assert not log.state().has_unrouted
    assert [row[3] for row in log.segments(topic_id)] == [ids]
