"""Who counts as alive: two looks for the silent, none for those of whom nothing is left."""

from dataclasses import replace
from datetime import timedelta

import pytest

from gapless.lease import hold
from gapless.lease.member import Member
from support.cast import TIMING, Cast

MINUTE = timedelta(minutes=2)
GRACEFUL = replace(TIMING, suspect_grace_ms=60_000, reconnect_grace_ms=60_000)


@pytest.fixture(autouse=True)
def server_is_up_for_long(cast: Cast) -> None:
    """After a start of the server everybody has 5 s to come back: wait until they are over."""
    cast.conn.execute(
        "select pg_sleep(greatest(0, 5.1 - extract(epoch from clock_timestamp() - started)))"
        " from (select greatest(pg_postmaster_start_time(), min(backend_start)) as started"
        " from pg_stat_activity where backend_type = 'walwriter') s"
    )


def die(member: Member) -> None:
    member._conn.close()


def until_gone(cast: Cast, member: Member) -> None:
    """Wait until the server has given a closed session's locks back."""
    cast.conn.execute("select pg_advisory_lock(7427002, %s)", [member._member_no])
    cast.conn.execute("select pg_advisory_unlock(7427002, %s)", [member._member_no])


def test_a_living_member_is_left_alone(cast: Cast) -> None:
    a, b = cast.member("a"), cast.member("b")
    a.sync()
    assert not a.watch()
    assert a.evict() == 0
    assert cast.members() == {a.member_id, b.member_id}


def test_a_session_that_shares_the_group_stops_no_plan(cast: Cast) -> None:
    """As a recording of the history does: nobody else would plan for the one that drains."""
    a, b = cast.member("a"), cast.member("b")
    b.sync()
    recorder = cast.session("recorder")
    with recorder.transaction():
        recorder.execute("select from gapless.consumer_group for key share")
        a.drain()
        assert {cast.lease("target", p) for p in range(4)} == {b.member_id}


def test_a_dead_one_without_workers_is_evicted_at_the_first_look(cast: Cast) -> None:
    a, b = cast.member("a", timing=GRACEFUL), cast.member("b")
    a.sync()
    die(b)
    until_gone(cast, b)
    assert a.watch()
    assert a.evict() == 1
    a.sync()
    assert {cast.lease("target", p) for p in range(4)} == {a.member_id}


def test_a_cut_off_one_whose_workers_live_has_its_grace(cast: Cast) -> None:
    a, b = cast.member("a", timing=GRACEFUL), cast.member("b")
    a.drain()
    b.sync()
    cast.work(b)
    die(b)
    until_gone(cast, b)
    assert a.watch()
    assert a.evict() == 0, "suspected"
    assert a.evict() == 0, "still within its grace"
    assert replace_timing(a, reconnect_grace_ms=0).evict() == 1


def test_a_successor_in_the_queue_is_no_sign_of_life(cast: Cast) -> None:
    """The lock of a dead worker goes to the session that queued for it: the dead one is as dead."""
    a, b = cast.member("a", timing=GRACEFUL), cast.member("b")
    b.sync()
    a.drain()
    worker, _ = cast.work(b)
    successor = cast.session("successor")
    die(b)
    worker.close()
    until_gone(cast, b)
    assert hold.lock(successor, cast.lease_no())
    assert a.evict() == 1


def test_a_silent_one_is_given_two_looks(cast: Cast) -> None:
    a, b = cast.member("a"), cast.member("b")
    cast.let_pass(b, MINUTE)
    assert a.watch()
    assert a.evict() == 0, "the first look only suspects: the clock may have jumped"
    assert a.evict() == 1


def test_the_first_look_is_at_half_of_the_ttl(cast: Cast) -> None:
    """So whoever is silent for its whole ttl is evicted then, and not a grace later."""
    a, b = cast.member("a"), cast.member("b")
    ttl = timedelta(milliseconds=TIMING.ttl_ms)
    a.sync()
    cast.let_pass(b, ttl * 0.4)
    assert not a.watch(), "a late heartbeat is none of our business"
    cast.let_pass(b, ttl * 0.2)
    assert a.watch()
    for _ in range(3):
        assert a.evict() == 0, "suspected, and still within its ttl"
    cast.let_pass(b, ttl * 0.5)
    assert a.evict() == 1, "at its ttl"


def test_a_beat_between_the_looks_saves_it(cast: Cast) -> None:
    a, b = cast.member("a"), cast.member("b")
    cast.let_pass(b, MINUTE)
    assert a.evict() == 0
    assert b.beat()
    cast.let_pass(b, MINUTE)
    assert a.evict() == 0, "a new suspicion, not the old one"
    assert a.evict() == 1


def test_an_evicted_one_learns_it_at_its_next_beat(cast: Cast) -> None:
    a, b = cast.member("a"), cast.member("b")
    cast.let_pass(b, MINUTE)
    a.evict()
    a.evict()
    assert not b.beat()
    assert a.beat()


def test_it_goes_on_as_the_same_with_a_new_session(cast: Cast) -> None:
    """Also when the server still believes in the old one, as after a cut network."""
    a = cast.member("a")
    again = cast.session("again")
    again.execute("set lock_timeout = '5s'")
    assert a.reattach(again)
    b = cast.member("b")
    b.sync()
    assert not b.watch()
    assert b.evict() == 0


def test_after_an_eviction_it_does_not(cast: Cast) -> None:
    a, b = cast.member("a"), cast.member("b")
    die(b)
    until_gone(cast, b)
    assert a.evict() == 1
    assert not b.reattach(cast.session("again"))


def test_watch_notices_a_plan_that_was_left_to_somebody_else(cast: Cast) -> None:
    """A plan may be skipped because another session is at it, who does not know the newest yet."""
    a = cast.member("a")
    planner = cast.session("planner")
    with planner.transaction():
        planner.execute("select from gapless.consumer_group for update")
        a.sync()
    assert cast.lease("target") is None
    assert a.watch()
    a.sync()
    assert cast.lease("target") == a.member_id
    assert not a.watch()


@pytest.mark.long
def test_two_groups_planned_at_once_do_not_fill_a_capacity_twice(cast: Cast) -> None:
    a = cast.member("a", capacity=4, groups=("g", "h"))
    one, other = cast.session("one"), cast.session("other")
    with one.transaction():
        one.execute("select gapless.sync('g', %s)", [cast.topic.topic_id])
        other.execute("set lock_timeout = 200")
        with pytest.raises(Exception, match="lock timeout"):
            other.execute("select gapless.sync('h', %s)", [cast.topic.topic_id])
    other.execute("select gapless.sync('h', %s)", [cast.topic.topic_id])
    row = cast.conn.execute("select count(target) from gapless.lease").fetchone()
    assert row == (4,)
    assert a.beat()


def replace_timing(member: Member, **changes: int) -> Member:
    member._timing = replace(member._timing, **changes)
    return member
