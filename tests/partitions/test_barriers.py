"""The same keys go on in the new partitions when the old ones are done: each rule of it."""

import pytest

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from partitions.players import Players, begun, heard, listener, one_key_each
from support.log import placed
from support.turn import one_step

MOVE_BACK = """
select set_config('gapless.seeking', pg_current_xact_id()::text, true);
update gapless.consumer_offsets set next_offset = 1 where group_id = 'g'
"""


def test_new_partitions_wait_for_those_that_share_keys(players: Players) -> None:
    """4 -> 8: the keys of partition 5 were all in partition 1."""
    group = begun(players, 8)
    assert group.turn(5).outcome == "idle"
    for other in (0, 2, 3):
        group.turn(other, batch_size=1)
    assert group.turn(5).outcome == "idle"
    assert group.turn(1, batch_size=1).outcome == "done"
    assert group.turn(5).outcome == "done"
    group.drain()
    group.assert_all()


def test_nothing_is_read_ahead_over_a_barrier(players: Players) -> None:
    for _ in range(3):
        players.publish(players.key(0, 4))
    players.publish(players.key(1, 4))
    players.change(3)
    for _ in range(3):
        players.publish(players.key(0, 3))
    group = players.group()
    before = 0
    while (done := group.turn(0, batch_size=1)).outcome == "done":
        before += done.events
    assert before == 3
    group.turn(1)
    assert group.turn(0, batch_size=1).outcome == "done"
    group.drain()
    group.assert_all()


@pytest.mark.long
def test_without_a_common_divisor_they_wait_for_all(players: Players) -> None:
    group = begun(players, 7)
    for old in (3, 1, 0, 2):
        for new in (4, 5, 6):
            assert group.turn(new).outcome == "idle"
        assert group.turn(old).outcome == "done"
    assert {group.turn(new).outcome for new in (4, 5, 6)} == {"done"}
    group.drain()
    group.assert_all()


def test_a_partition_that_stays_waits_at_its_own_barrier(players: Players) -> None:
    group = begun(players, 7)
    assert group.turn(0).next_offset == 2
    assert group.turn(0).outcome == "idle"
    for old in (1, 2):
        group.turn(old)
    assert group.turn(0).outcome == "idle"
    group.turn(3)
    assert group.turn(0).next_offset == 3


def test_a_batch_that_is_not_committed_is_waited_for(dsn: str, players: Players) -> None:
    """Its effects are not there yet, and never will be if it rolls back."""
    group = begun(players, 8)
    held = group.assignment(1)
    with connect(dsn, role="worker") as worker:
        worker.execute("begin")
        claimed = worker.execute(
            "select outcome from gapless.claim('g', %s, 1, %s, %s, 1)",
            [players.topic.topic_id, held.epoch, held.token],
        ).fetchone()
        assert claimed == ("claimed",)
        assert group.turn(5).outcome == "idle"
        worker.execute("rollback")
    assert group.turn(5).outcome == "idle"
    group.turn(1)
    assert group.turn(5).outcome == "done"


def test_a_claim_ends_at_the_barrier(players: Players) -> None:
    """Whatever batchSize says, and although both sides are there: what is behind may have to wait."""
    key = players.key(0, 4)
    for _ in range(3):
        players.publish(key)
    players.change(8)
    new = players.key(0, 8)
    for _ in range(3):
        players.publish(new)
    group = players.group()
    assert group.turn(0, batch_size=100).next_offset == 4
    assert group.turn(0, batch_size=100).next_offset == 7
    group.drain()
    group.assert_all()


def test_a_unit_never_spans_a_barrier(players: Players) -> None:
    """A run ends its last unit, and a change falls between two runs: the same id twice is two units."""
    same = "00000000-0000-0000-0000-000000000001"
    statement = (
        "insert into gapless.outbox_message_t (topic_id, key, transaction_id, payload)"
        " values (%s, %s, %s, '{}')"
    )
    key = players.key(0, 4)
    players.conn.execute(statement, [players.topic.topic_id, key, same])
    players.change(1)
    players.conn.execute(statement, [players.topic.topic_id, key, same])
    sequence(players.conn)
    assert [event.ends_unit for event in placed(players.conn)[players.topic.topic_id, 0]] == [
        True,
        True,
    ]
    group = players.group()
    group.drain()
    units = players.rows("select c_offset, unit from effect order by n")
    assert units == [(1, 1), (2, 2)]


def test_a_layout_without_events_of_a_key_hides_nothing(players: Players) -> None:
    """4 -> 2 -> 8: what partition 3 had is waited for, although 2 partitions had nothing of it."""
    players.publish(players.key(3, 4))
    players.change(2)
    players.change(8)
    players.publish(players.key(7, 8))
    group = players.group()
    assert group.turn(7).outcome == "idle"
    group.turn(3)
    assert group.turn(7).outcome == "done"
    group.assert_all()


@pytest.mark.long
def test_several_changes_before_the_first_is_finished(players: Players) -> None:
    group = players.group()
    keys = [f"k{n}" for n in range(30)]
    players.publish(*keys)
    for number in (7, 2, 16, 3):
        players.change(number)
        players.publish(*keys, *one_key_each(players, number))
    assert list(group.leases()) == list(range(16)), "none is given up before it is finished"
    group.drain()
    group.assert_all()
    assert len(group.handled()) == 5 * 30 + 7 + 2 + 16 + 3
    assert list(group.leases()) == [0, 1, 2]


@pytest.mark.long
def test_the_last_that_passes_wakes_those_that_wait(dsn: str, players: Players) -> None:
    group = begun(players, 8)
    with listener(players, dsn, 8) as ear:
        for new in (4, 5, 6, 7):
            group.turn(new)
        group.turn(1)
        assert heard(players, ear) == set(), "not before the batch has committed"
        group.turn(1)
        assert heard(players, ear) == {5}
        group.turn(1)
        assert heard(players, ear) == set(), "once"
    players.change(3)
    group.drain()
    players.publish(*one_key_each(players, 3))
    with listener(players, dsn, 8) as ear:
        group.drain()
        assert heard(players, ear) == set(), "nobody waits, nobody is woken"


def test_the_last_of_many_wakes_all(dsn: str, players: Players) -> None:
    group = begun(players, 7)
    with listener(players, dsn, 7) as ear:
        for old in (0, 1, 2, 3):
            group.turn(old)
        for old in (0, 1, 2):
            group.turn(old)
        assert heard(players, ear) >= set(range(1, 7)), (
            "by the first that looks when all have passed"
        )


def test_a_partition_without_another_event_passes_too(dsn: str, players: Players) -> None:
    """It has no next event that would say so."""
    players.publish(players.key(3, 4))
    players.change(3)
    players.publish(*one_key_each(players, 3))
    group = players.group()
    held = group.assignment(3)
    with listener(players, dsn, 4) as ear:
        assert group.turn(1).outcome == "idle"
        assert one_step(group.conn, held, group.handler).outcome == "done"
        assert heard(players, ear) == set()
        assert one_step(group.conn, held, group.handler).outcome == "idle"
        assert heard(players, ear) == {0, 1, 2}


def test_a_partition_that_is_retired_at_once_passes_too(dsn: str, players: Players) -> None:
    """Its worker was killed after its last batch, and nobody looks again."""
    players.publish(players.key(3, 4))
    players.change(3)
    players.publish(*one_key_each(players, 3))
    group = players.group()
    with listener(players, dsn, 4) as ear:
        assert group.turn(3).outcome == "done"
        assert heard(players, ear) == set()
        assert list(group.leases()) == [0, 1, 2]
        assert heard(players, ear) == {0, 1, 2}


def test_an_old_partition_is_retired_when_it_is_finished(players: Players) -> None:
    group = players.group()
    players.publish(*one_key_each(players, 4))
    players.change(2)
    assert list(group.leases()) == [0, 1, 2, 3]
    group.turn(2)
    assert list(group.leases()) == [0, 1, 3]
    assert group.member.watch() is False, "nothing is to be planned"
    group.turn(3)
    assert group.member.watch() is True, "so that somebody retires it"
    assert list(group.leases()) == [0, 1]
    assert sorted(group.offsets()) == [0, 1, 2, 3], "what was handled stays known"
    read = players.rows("select c_offset, key from gapless.read('t', 3)")
    assert read == [(1, players.key(3, 4))]


def test_a_retired_partition_comes_back(players: Players) -> None:
    """With a higher epoch, at its next offset; its former worker is fenced."""
    group = players.group()
    players.publish(*one_key_each(players, 4))
    former = group.assignment(3)
    players.change(2)
    group.drain()
    group.leases()
    players.change(4)
    players.publish(*one_key_each(players, 4))
    assert one_step(group.conn, former, group.handler).outcome == "fenced"
    assert group.assignment(3).epoch > former.epoch
    group.drain()
    group.assert_all()
    assert group.offsets()[3] == 3


def test_no_epoch_is_given_twice_though_its_fence_was_never_put_in(players: Players) -> None:
    """A worker lost its session between acquire() and install_fence(); then the partition went and came back."""
    group = players.group()
    players.publish(*one_key_each(players, 4))
    group.assignment(3)
    lost = players.value(
        "select gapless.acquire(l.group_id, l.topic_id, l.partition_id, l.owner, gen_random_uuid())"
        " from gapless.lease l where l.partition_id = 3"
    )
    players.change(2)
    group.drain()
    assert 3 not in group.leases()
    players.change(4)
    players.publish(*one_key_each(players, 4))
    assert group.assignment(3).epoch > lost


def test_what_is_locked_is_retired_the_next_time(dsn: str, players: Players) -> None:
    """sync() waits for nobody: it has the group's row, and nobody could plan."""
    group = players.group()
    players.change(2)
    with connect(dsn, role="other") as other:
        for statement in (
            "select from gapless.consumer_offsets where partition_id = 3 for update",
            "select from gapless.lease where partition_id = 3 for update",
            "select from gapless.topic for update",
        ):
            other.execute("begin")
            other.execute(statement.encode())
            group.conn.execute("set statement_timeout = '10s'")
            assert 3 in group.leases()
            other.execute("commit")
    assert list(group.leases()) == [0, 1]


def test_a_group_from_latest_begins_after_the_change(players: Players) -> None:
    players.publish(*one_key_each(players, 4))
    players.change(2)
    players.publish(*one_key_each(players, 2))
    group = players.group("new", start="latest")
    assert list(group.leases()) == [0, 1]
    players.publish(*one_key_each(players, 2))
    group.drain()
    group.assert_all()
    assert len(group.handled()) == 2
    players.change(4)
    players.publish(*one_key_each(players, 4))
    group.drain()
    group.assert_all()


def test_a_group_that_is_moved_back_meets_the_barriers_again(players: Players) -> None:
    group = begun(players, 2)
    group.drain()
    assert list(group.leases()) == [0, 1]
    with players.conn.transaction():
        for statement in MOVE_BACK.split(";"):
            players.conn.execute(statement.encode())
    assert list(group.leases()) == [0, 1, 2, 3], "to handle what is in the old ones again"
    players.conn.execute("truncate effect")
    group.turn(0, batch_size=1)
    assert group.turn(0).outcome == "idle"
    group.turn(2)
    assert group.turn(0).outcome == "done"
    group.drain()
    group.assert_all()
    assert list(group.leases()) == [0, 1]


@pytest.mark.long
@pytest.mark.parametrize("partitions", [8, 3])
def test_dead_letters_before_and_behind_a_barrier(players: Players, partitions: int) -> None:
    group = players.group()
    keys = [f"k{n}" for n in range(24)]
    tags = [tag for key in keys for tag in players.publish(key)]
    players.change(partitions)
    tags += [tag for key in keys for tag in players.publish(key)]
    group.failing = {tag for n, tag in enumerate(tags) if n % 3 == 0}
    group.drain()
    group.assert_all()
    assert players.value("select count(*) from gapless.dead_letter_queue") == 16


def test_what_waits_for_what_is_shown(players: Players) -> None:
    group = begun(players, 8)
    shown = "select partition_id, waits_for from gapless.waits order by 1"
    assert players.rows(shown) == [(4, [0]), (5, [1]), (6, [2]), (7, [3])]
    changes = "select partitions_before, partitions, unfinished, events from gapless.changes"
    assert players.rows(changes) == [(4, 8, [0, 1, 2, 3], 4)]
    group.turn(1)
    assert players.rows(changes) == [(4, 8, [0, 2, 3], 3)]
    assert (1, []) in players.rows(shown)
    group.drain()
    assert players.rows(changes) == []
    assert players.rows(shown) == []
