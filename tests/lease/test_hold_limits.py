"""How long taking a partition may wait, what it says of a place that is gone, and what is given back."""

from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.errors import UnplacedError
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Member
from support.cast import Cast

TARGET = "update gapless.lease set target = %s"
PLACE = "group_id = 'g' and partition_id = 0"
NO_LIMIT = ("0",)


@pytest.fixture
def member(cast: Cast) -> Member:
    """The target of all partitions."""
    made = cast.member("a")
    cast.conn.execute(TARGET, [made.member_id])
    return made


@pytest.fixture
def taken(cast: Cast, member: Member) -> tuple[Connection[Any], Assignment]:
    """Partition 0, taken; its fence is not in yet."""
    session = cast.session()
    assert hold.lock(session, cast.lease_no())
    assignment = hold.take(session, cast.partition(), member.member_id)
    assert assignment is not None
    return session, assignment


def limit_of(session: Connection[Any]) -> Any:
    return session.execute("show lock_timeout").fetchone()


def is_free(cast: Cast, partition_id: int = 0) -> bool:
    other = cast.session()
    free = hold.try_lock(other, cast.lease_no(partition_id))
    if free:
        hold.unlock(other, cast.lease_no(partition_id))  # a session that closes ends a little later
    other.close()
    return free


def test_a_lock_that_is_free_is_taken_and_kept(cast: Cast, member: Member) -> None:
    for take in (hold.lock, hold.try_lock):
        session = cast.session()
        assert take(session, cast.lease_no()) is True
        assert not is_free(cast)
        assert is_free(cast, 1)
        assert limit_of(session) == NO_LIMIT
        hold.unlock(session, cast.lease_no())
        assert is_free(cast)


def test_one_that_is_not_free_is_not_waited_for_long(cast: Cast, member: Member) -> None:
    holder, session = cast.session(), cast.session()
    assert hold.lock(holder, cast.lease_no())
    assert hold.try_lock(session, cast.lease_no()) is False
    began_s = monotonic()
    assert hold.lock(session, cast.lease_no()) is False
    assert monotonic() - began_s > 0.2
    assert limit_of(session) == NO_LIMIT


@pytest.mark.parametrize("wait_ms", [1, None])
def test_a_fence_waits_so_long_for_a_late_batch(
    cast: Cast,
    taken: tuple[Connection[Any], Assignment],
    wait_ms: int | None,
) -> None:
    session, assignment = taken
    late = cast.session()
    with late.transaction():
        late.execute(f"select from gapless.consumer_offsets where {PLACE} for update")
        began_s = monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            hold.install(session, assignment, wait_ms)
        assert wait_ms is not None or monotonic() - began_s > 0.2
        assert limit_of(session) == NO_LIMIT
    assert hold.install(session, assignment, wait_ms) is not None


def test_a_group_without_a_place_is_named(
    cast: Cast, taken: tuple[Connection[Any], Assignment]
) -> None:
    session, assignment = taken
    row = f"gapless.consumer_offsets where {PLACE}"
    cast.conn.execute(f"create table away as select * from {row}")
    cast.conn.execute(f"delete from {row}")
    with pytest.raises(UnplacedError) as caught:
        hold.install(session, assignment)
    assert str(assignment.partition) in str(caught.value)
    cast.conn.execute("insert into gapless.consumer_offsets select * from away")
    held = hold.install(session, assignment)
    assert held is not None
    assert held.assignment == assignment


def test_an_assignment_is_what_the_lease_says(cast: Cast, member: Member) -> None:
    session = cast.session()
    first = hold.take(session, cast.partition(2), member.member_id)
    second = hold.take(session, cast.partition(2), member.member_id)
    assert first is not None
    assert second is not None
    assert second.partition == cast.partition(2)
    assert (second.epoch, second.token) == (cast.lease("epoch", 2), cast.lease("token", 2))
    assert (second.epoch - first.epoch, second.token == first.token) == (1, False)


def test_whoever_takes_nothing_holds_nothing(cast: Cast, member: Member) -> None:
    stranger = cast.member("b")
    session = cast.session()
    assert hold.try_take(session, cast.lease_no(), cast.partition(), stranger.member_id) is None
    assert is_free(cast)
    assert hold.try_take(session, cast.lease_no(), cast.partition(), member.member_id)
    assert not is_free(cast)
    holder = cast.session()
    assert hold.lock(holder, cast.lease_no(1))
    assert hold.try_take(session, cast.lease_no(1), cast.partition(1), member.member_id) is None
    assert cast.lease("owner", 1) is None
    hold.unlock(holder, cast.lease_no(1))
    assert is_free(cast, 1), "it did not wait for it either"


def test_after_a_release_the_lock_is_free_whoever_the_lease_belongs_to(
    cast: Cast, taken: tuple[Connection[Any], Assignment], member: Member
) -> None:
    session, assignment = taken
    newer = hold.take(cast.session(), cast.partition(), member.member_id)
    assert newer is not None
    hold.release(session, assignment, cast.lease_no())
    assert is_free(cast)
    assert cast.lease("owner") == member.member_id, "it was not ours any more"
    hold.release(session, newer, cast.lease_no())
    assert cast.lease("owner") is None


def test_nobody_is_a_zombie_where_all_is_well(cast: Cast, member: Member) -> None:
    session = cast.session()
    assert hold.break_zombie(session, cast.partition()) == 0
    cast.work(member)
    assert hold.break_zombie(session, cast.partition()) == 0
    assert hold.break_zombie(session, cast.partition(7, "nobody")) == 0
