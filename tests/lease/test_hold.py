"""Taking a partition, the fence, letting go (I7): statement by statement, with two sessions."""

import psycopg
import pytest

from gapless.lease import hold
from support.cast import Cast

MOVE = "update gapless.lease set target = %s where partition_id = 0"


def test_the_target_waits_while_the_owner_lives(cast: Cast) -> None:
    a, b = cast.member("a"), cast.member("b")
    cast.conn.execute(MOVE, [a.member_id])
    session, taken = cast.work(a)
    cast.conn.execute(MOVE, [b.member_id])
    assert hold.take(cast.session(), cast.partition(), b.member_id) is None
    hold.release(session, taken, cast.lease_no())
    again = hold.take(cast.session(), cast.partition(), b.member_id)
    assert again is not None
    assert again.epoch == 2


@pytest.mark.long
def test_the_fence_waits_for_an_open_batch_but_no_plan_does(cast: Cast) -> None:
    """L2: no control statement waits for a worker's transaction."""
    a, b = cast.member("a"), cast.member("b")
    cast.conn.execute(MOVE, [a.member_id])
    late, taken = cast.work(a)
    with late.transaction():
        late.execute(
            "select from gapless.claim(%s, %s, %s, %s, %s, 1)",
            ["g", taken.partition.topic_id, 0, taken.epoch, taken.token],
        )
        late.execute("select from gapless.consumer_offsets where partition_id = 0 for update")
        a.leave()
        cast.conn.execute(MOVE, [b.member_id])
        session = cast.session()
        new = hold.take(session, cast.partition(), b.member_id)
        assert new is not None
        with pytest.raises(psycopg.errors.LockNotAvailable):
            hold.install(session, new)
        for member in (a, b):
            member._conn.execute("set lock_timeout = 100")
        b.sync()
        b.drain()
        b.evict()
        b.disown(cast.partition())
        assert not a.beat()
    assert hold.install(session, new) is not None
    row = late.execute(
        "select outcome from gapless.claim(%s, %s, %s, %s, %s, 1)",
        ["g", taken.partition.topic_id, 0, taken.epoch, taken.token],
    ).fetchone()
    assert row == ("fenced",)


def test_release_by_a_former_owner_changes_nothing(cast: Cast) -> None:
    a, b = cast.member("a"), cast.member("b")
    cast.conn.execute(MOVE, [a.member_id])
    late, taken = cast.work(a)
    late.execute("select pg_advisory_unlock_all()")
    a.leave()
    cast.conn.execute(MOVE, [b.member_id])
    cast.work(b)
    hold.release(late, taken, cast.lease_no())
    assert cast.lease("owner") == b.member_id
    row = cast.conn.execute(
        "select installed_offset from gapless.consumer_offsets where partition_id = 0"
    ).fetchone()
    assert row == (1,), "b's end would look clean"
