"""The checks themselves: what nobody may do is found, in the history or at rest."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from psycopg import Connection

from gapless.lease import hold
from gapless.lease.member import Member
from gapless.log.topics import Topic
from support.cast import Cast
from support.lease_checks import assert_sound, record

FENCE = "update gapless.consumer_offsets set {} where partition_id = 0"
LEASE = "update gapless.lease set {} where partition_id = 0"
DEEDS = {
    "S2": FENCE.format("next_offset = 1"),
    "S3": FENCE.format("next_offset = 9"),
    "S4": LEASE.format("epoch = 7"),
    "S5": FENCE.format("epoch = 3"),
    "S6": LEASE.format("owner = gen_random_uuid()"),
    "S7": LEASE.format("epoch = epoch + 1, owner = gen_random_uuid()"),
    "L3": LEASE.format("target = null"),
    "P1": "update gapless.lease set generation = 9, target ="
    " (select target from gapless.lease order by partition_id limit 1)",
}


@pytest.fixture
def cast(dsn: str, conn: Connection, topic: Topic) -> Iterator[Cast]:
    """Without the check at the end."""
    record(conn)
    with Cast(dsn, conn, topic).closing() as made:
        yield made


def played(cast: Cast) -> Member:
    """Two members share four partitions; one batch of two was handled in the first."""
    a, b = cast.member("a"), cast.member("b")
    a.sync()
    b.sync()
    owner = {m.member_id: m for m in (a, b)}[cast.lease("target")]  # type: ignore[index]
    session, taken = cast.work(owner)
    with session.transaction():
        session.execute("select set_config('gapless.finished', pg_current_xact_id()::text, true)")
        session.execute(FENCE.format("next_offset = 3"))
    hold.release(session, taken, cast.lease_no())
    cast.work(owner)
    return owner


def test_an_honest_play_is_sound(cast: Cast) -> None:
    played(cast)
    assert_sound(cast.dsn, by_hand=False)


@pytest.mark.few(3)
@pytest.mark.parametrize("invariant", DEEDS)
def test_what_nobody_may_do_is_found(cast: Cast, invariant: str) -> None:
    played(cast)
    with cast.conn.transaction():
        cast.conn.execute("select set_config('gapless.finished', pg_current_xact_id()::text, true)")
        cast.conn.execute(DEEDS[invariant])
    with pytest.raises(AssertionError, match=f"(?m)^{invariant}: "):
        assert_sound(cast.dsn, by_hand=False)


def test_a_member_that_gives_and_gets_is_found(cast: Cast) -> None:
    """P4: a plan that swaps two partitions between members who stay."""
    a = played(cast)
    cast.conn.execute(
        "update gapless.lease l set generation = 9, target = o.target from gapless.lease o"
        " where o.target <> l.target and l.partition_id in (0, 3) and o.partition_id in (0, 3)"
    )
    assert a.beat()
    with pytest.raises(AssertionError, match=r"(?m)^P4: "):
        assert_sound(cast.dsn, by_hand=False)


def test_a_token_of_somebody_else_is_found(cast: Cast) -> None:
    played(cast)
    cast.conn.execute(FENCE.format("token = %s"), [uuid4()])
    with pytest.raises(AssertionError, match=r"(?m)^S6: "):
        assert_sound(cast.dsn, by_hand=False)
