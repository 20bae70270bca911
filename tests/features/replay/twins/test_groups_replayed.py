"""Scratch groups: the range they have, who takes it, and what of it is written."""

import pytest

from support.twins import Twins

TOKEN = "00000000-0000-0000-0000-00000000000b"
CREATE = "select gapless.create_replay('again', 'orders'{})"
# When offset 5 of partition 1 was published: offsets 4 to 6 of others were a moment sooner or later.
HOURS = (
    "update gapless.outbox_message_t o set created_ts = timestamptz '2020-01-01' + make_interval(hours => x.c_offset::int)"
    " from (select s.base_offset + u.n - 1 as c_offset, u.id from gapless.log_segment s"
    " cross join unnest(s.message_ids) with ordinality as u (id, n)) x where x.id = o.id"
)
FIVE = "timestamptz '2020-01-01 05:00'"
# start and stop of partitions 0, 1, 2 (of which the first ends at 9, the others at 8)
RANGES: dict[str, tuple[str, list[tuple[int, int]]]] = {
    "all there is": ("", [(1, 10), (1, 9), (1, 9)]),
    "a partition": (", 1", [(1, 1), (1, 9), (1, 1)]),
    "from the end": (", _from_end => 'latest'", [(10, 10), (9, 9), (9, 9)]),
    "from an offset": (", _from_offset => 7", [(7, 10), (7, 9), (7, 9)]),
    "to an offset": (", _to_offset => 7", [(1, 7), (1, 7), (1, 7)]),
    "to one beyond the end": (", _to_offset => 10", [(1, 10), (1, 9), (1, 9)]),
    "from one to one before it": (", _from_offset => 7, _to_offset => 5", [(7, 7), (7, 7), (7, 7)]),
    "of a partition, to an offset": (", 2, _to_offset => 3", [(1, 1), (1, 1), (1, 3)]),
    "from a time": (f", _from_time => {FIVE} + interval '2 hours'", [(7, 10), (7, 9), (7, 9)]),
    "to a time": (f", _to_time => {FIVE}", [(1, 5), (1, 5), (1, 5)]),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_the_range_of_a_replay(twins: Twins, name: str) -> None:
    """There is another replay; only this one's rows are written."""
    twins.conn.execute(HOURS)
    twins.conn.execute(
        "select gapless.create_replay('before', 'orders'), gapless.create_replay('twice', 'other')"
    )
    twins.conn.execute("delete from gapless.audit")
    arguments, ranges = RANGES[name]
    call = CREATE.format(arguments)
    changed = twins.changes(f"create temp table n on commit drop as {call} as n")
    events = sum(stop - start for start, stop in ranges)
    assert twins.value("select n from n") == events
    assert changed["audit replay again orders None"]["detail"] == (None, f'{{"events": {events}}}')
    assert changed["consumer_group again orders"]["is_scratch"] == (None, True)
    for n, (start, stop) in enumerate(ranges):
        row = changed[f"consumer_offsets again orders {n}"]
        assert row["next_offset"] == row["start_offset"] == (None, start)
        assert row["stop_offset"] == (None, stop)
    assert all(" again " in f"{key} " for key in changed)
    assert len(changed) == 2 + 2 * 3


def test_a_group_that_is_there_is_no_replay(twins: Twins) -> None:
    """Also one that consumes another topic."""
    twins.conn.execute("select gapless.create_group('again', 'other')")
    state, text = twins.refused(CREATE.format(""))
    assert (state, text[:32]) == ("GL409", 'there is a group "again" already')


def test_a_trial(twins: Twins) -> None:
    changed = twins.changes(
        "select gapless.create_trial('again', 'orders', '{0,2}', '{3,4}', '{5,6}')"
    )
    assert changed.pop("consumer_group again orders")["is_scratch"] == (None, True)
    for n, start, stop in ((0, 3, 5), (2, 4, 6)):
        row = changed.pop(f"consumer_offsets again orders {n}")
        assert row["next_offset"] == row["start_offset"] == (None, start)
        assert row["stop_offset"] == (None, stop)
    assert changed == {}


@pytest.mark.parametrize("installed", [None, 3])
def test_who_takes_a_partition_of_it(twins: Twins, installed: int | None) -> None:
    """A former holder that left properly has taken its fence away."""
    twins.conn.execute("select gapless.create_replay('again', t) from unnest('{other}'::text[]) t")
    twins.conn.execute("select gapless.create_group('again', 'orders')")
    twins.conn.execute(
        "update gapless.consumer_group set is_scratch = true where group_id = 'again'"
    )
    twins.conn.execute(
        "update gapless.consumer_offsets set epoch = 4, installed_offset = 2 - partition_id"
    )
    here = twins.here("again")
    twins.conn.execute(
        f"update gapless.consumer_offsets set epoch = 6, installed_offset = %s where {here}",
        [installed],
    )
    twins.seek(5, here)
    call = f"gapless.take_replay('again', {twins.topic_ids['orders']}, 1, '{TOKEN}')"
    changed = twins.changes(f"create temp table n on commit drop as select * from {call}")
    assert twins.conn.execute("select epoch, unclean from n").fetchall() == [
        (7, installed is not None)
    ]
    assert changed == {
        "consumer_offsets again orders 1": {
            "epoch": (6, 7), "token": (None, TOKEN), "installed_offset": (installed, 5),
        }
    }  # fmt: skip


@pytest.mark.parametrize(("group", "partition"), [("billing", 1), ("again", 3)])
def test_nobody_takes_what_is_no_replay(twins: Twins, group: str, partition: int) -> None:
    twins.conn.execute("select gapless.create_replay('again', 'orders')")
    call = f"select from gapless.take_replay('{group}', {twins.topic_ids['orders']}, {partition}, '{TOKEN}') where epoch > 0"
    assert twins.changes(call) == {}


@pytest.mark.parametrize("was", [None, "mail"])
def test_whose_messages_a_replay_takes(twins: Twins, was: str | None) -> None:
    twins.conn.execute(
        "select gapless.create_replay(n, 'orders') from unnest('{again,twice}'::text[]) n"
    )
    twins.conn.execute("select gapless.create_group('again', 'other')")
    twins.conn.execute(
        "update gapless.consumer_group set is_scratch = true where group_id = 'again'"
    )
    twins.conn.execute("update gapless.consumer_group set stands_for = %s", [was])
    topic_id = twins.topic_ids["orders"]
    call = "select gapless.replay_for('{}', {}, 'billing')"
    changed = twins.changes(call.format("again", topic_id))
    assert changed == {"consumer_group again orders": {"stands_for": (was, "billing")}}
    query = "select pg_stat_get_xact_tuples_updated('gapless.consumer_group'::regclass)"
    before = twins.value(query)
    assert twins.changes(call.format("again", topic_id)) == {}
    assert twins.changes(call.format("mail", topic_id)) == {}, "no replay"
    assert twins.value(query) == before
