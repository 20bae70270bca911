"""Who is told what: each function that changes what others wait for notifies them, once it commits.

Nobody would notice a missing one but by its latency: everything is polled for, too, now and then.
"""

import pytest

from gapless.db.listen import listen
from gapless.db.schema import default_channel, schema
from gapless.lease import hold
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from support.cast import Cast

HEARD_S = 10.0  # for a notification that must come; the last one told, so nothing is waited for
MARK = "nothing_else"
Heard = list[tuple[str, str]]


class Ear:
    """Hears the channels of partition 0 and of its group, `g`."""

    def __init__(self, cast: Cast) -> None:
        self._conn = cast.session("ear")
        self._sender = cast.session("sender")
        self.group = f"gapless_g_{self._value(cast, 'select group_no from gapless.consumer_group')}"
        self.partition = f"gapless_p_{cast.topic.topic_id}_0"
        for channel in (self.group, self.partition, "gapless_sequencer", "gapless_role", MARK):
            listen(self._conn, channel)

    def hear(self) -> Heard:
        """What was told since the last time: channel and word."""
        self._sender.execute("select pg_notify(%s, '')", [MARK])
        found: Heard = []
        for each in self._conn.notifies(timeout=HEARD_S):
            if each.channel == MARK:
                return found
            found.append((default_channel(each.channel, schema()), each.payload))
        raise AssertionError("not even the mark was heard")

    def _value(self, cast: Cast, statement: str) -> object:
        row = cast.conn.execute(statement).fetchone()  # type: ignore[arg-type]
        assert row is not None
        return row[0]


@pytest.fixture
def ear(cast: Cast) -> Ear:
    cast.conn.execute("select gapless.create_group('g', 'outbox', 'earliest')")
    return Ear(cast)


def test_a_release_tells_who_waits_and_the_group(cast: Cast, ear: Ear) -> None:
    a = cast.member("a")
    a.sync()
    session, taken = cast.work(a)
    ear.hear()
    hold.release(session, taken, cast.lease_no())
    assert sorted(ear.hear()) == [(ear.group, "free"), (ear.partition, "free")]


def test_a_release_by_a_former_owner_tells_the_group_nothing(cast: Cast, ear: Ear) -> None:
    a = cast.member("a")
    a.sync()
    session, taken = cast.work(a)
    assert hold.take(session, cast.partition(), a.member_id) is not None
    ear.hear()
    hold.release(session, taken, cast.lease_no())
    assert ear.hear() == [(ear.partition, "free")], "its lock is free, the lease is not its own"


def test_a_lease_given_up_tells_the_group(cast: Cast, ear: Ear) -> None:
    a, b = cast.member("a"), cast.member("b")
    a.sync()
    owner = {a.member_id: a, b.member_id: b}[cast.lease("target")]  # type: ignore[index]
    session, _ = cast.work(owner)
    session.close()
    ear.hear()
    other = b if owner is a else a
    other.disown(cast.partition())
    assert ear.hear() == [], "it is not its to give"
    owner.disown(cast.partition())
    assert ear.hear() == [(ear.group, "free")]


def test_a_new_plan_tells_the_group_and_one_that_changes_nothing_does_not(
    cast: Cast, ear: Ear
) -> None:
    a = cast.member("a")
    a.sync()
    assert (ear.group, "plan") in ear.hear()
    a.sync()
    assert ear.hear() == []


def test_who_is_ready_tells_the_owner(cast: Cast, ear: Ear) -> None:
    cast.member("a").sync()
    ear.hear()
    hold.announce(cast.session(), cast.partition())
    assert ear.hear() == [(ear.group, f"ready {cast.lease_no()}")]


def test_events_with_new_offsets_tell_their_partition(cast: Cast, ear: Ear) -> None:
    ear.hear()
    for partition, expected in ((1, []), (0, [(ear.partition, "")])):
        publish(cast.conn, "outbox", NewEvent(payload=1, key=key_of(cast, partition)))
        sequence(cast.conn)
        assert [each for each in ear.hear() if each[0] == ear.partition] == expected


def test_a_hole_that_is_skipped_tells_the_partition_that_stands_before_it(
    cast: Cast, ear: Ear
) -> None:
    publish(cast.conn, "outbox", NewEvent(payload=1, key=key_of(cast, 0)))
    sequence(cast.conn)
    cast.conn.execute("delete from gapless.outbox_message_t")
    ear.hear()
    cast.conn.execute("select gapless.skip_hole('g', 'outbox', 0, 1)")
    assert ear.hear() == [(ear.partition, "")]


@pytest.mark.parametrize(
    "deed",
    ["select gapless.set_partitions('outbox', 8)", "select gapless.adopt_topic(77, 'orders', 1)"],
)
def test_what_the_sequencer_must_see_wakes_it(cast: Cast, ear: Ear, deed: str) -> None:
    """It may be asleep: what waits for an offset has told it long ago."""
    cast.conn.execute("insert into gapless.outbox_message_t (topic_id, payload) values (77, '1')")
    sequence(cast.conn)
    ear.hear()
    cast.conn.execute(deed)  # type: ignore[arg-type]
    assert ("gapless_sequencer", "") in ear.hear()


def key_of(cast: Cast, partition: int) -> str:
    """Return a key of a partition."""
    found = cast.conn.execute(
        "select 'k' || n from generate_series(1, 100) n"
        " where gapless.partition_of('k' || n, 4) = %s limit 1",
        [partition],
    ).fetchall()
    return str(found[0][0])
