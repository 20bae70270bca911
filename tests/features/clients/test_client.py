"""Clients of an ordered group: what each gets, what it may commit, and who comes too late."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection

from features.clients.calls import GROUP, Clients, refused
from gapless.db.connect import connect
from gapless.status import snapshot, to_document


def test_units_come_in_order_and_move_the_offset(clients: Clients) -> None:
    one = clients.join()
    assert one.poll() == []
    clients.publish(["a", "a"], "b", ["c", "c", "c"])
    found = one.poll(max_events=3)
    assert [(each.c_offset, each.first_offset, each.last_offset) for each in found] == [
        (1, 1, 2), (2, 1, 2), (3, 3, 3)
    ]  # fmt: skip
    assert [(each.payload["key"], each.key, each.attempt, each.redriven) for each in found] == [
        ("a", "a", 1, False), ("a", "a", 1, False), ("b", "b", 1, False)
    ]  # fmt: skip
    assert one.commit(0, 4)
    assert one.offsets(max_events=1) == [4, 5, 6]  # a unit is whole
    assert one.commit(0, 7)
    assert not one.commit(0, 7)  # its answer was lost: said again
    assert one.poll() == []
    assert clients.next_offset() == 7


def test_what_is_not_committed_comes_again_alone(clients: Clients) -> None:
    clients.publish("a", "b", "c")
    one = clients.join()
    assert one.offsets() == [1, 2, 3]
    again = one.poll()
    assert [(each.c_offset, each.attempt) for each in again] == [(1, 2)]
    assert one.commit(0, 2)
    assert one.commit(0, 4)  # 2 and 3 are in hand since the first poll
    assert clients.next_offset() == 4


def test_a_commit_of_what_was_not_handed_out_is_refused(clients: Clients) -> None:
    clients.publish(["a", "a"], "b", "c")
    one = clients.join()
    with refused("GL007"):
        one.commit(0, 2)  # it has not polled: it holds nothing
    assert one.offsets(max_events=2) == [1, 2]
    for offset in (2, 4, 5, 99):  # amid a unit, or not handed out
        with refused("GL409"):
            one.commit(0, offset)
    with refused("GL007"):
        one.commit(1, 3)
    assert one.commit(0, 3)
    for offset in (1, 2, 0, -5):
        with refused("GL409"):
            one.commit(0, offset)
    with pytest.raises(psycopg.Error, match="is at offset 3 already"):
        one.commit(0, 2)
    with refused("GL409"):
        clients.rows("select gapless.commit(%s, 0, null)", [one.token])
    assert clients.next_offset() == 3


def test_who_comes_after_its_deadline_moves_nothing(clients: Clients) -> None:
    clients.publish("a", "b")
    one = clients.join(name="slow one")
    assert one.offsets() == [1, 2]
    clients.expire(one)
    for late in (lambda: one.commit(0, 3), one.poll, one.heartbeat, lambda: one.reject(0, 1)):
        with refused("GL006"):
            late()
    assert clients.next_offset() == 1
    two = clients.join()  # nobody has noticed before
    assert [(each.c_offset, each.attempt) for each in two.poll()] == [(1, 2)]
    with refused("GL006"):
        one.commit(0, 3)
    assert not one.leave()
    assert clients.one("select reason from gapless.eviction where name = 'slow one'").startswith(
        "its deadline passed"
    )
    with refused("GL409"):
        two.commit(0, 3)  # the other one had that in hand, not this one
    assert two.commit(0, 2)
    assert two.offsets() == [2]


def test_only_a_client_past_its_deadline_is_a_reason_to_act(clients: Clients) -> None:
    """Without a session, silent for most of its time: as it should be."""
    one, two = clients.join(), clients.join()
    due = "select gapless.watch(%s)"
    assert not clients.one(due, [one.member_id])
    clients.conn.execute(
        "update gapless.member set expires_at = clock_timestamp() + ttl / 10 where member_id = %s",
        [two.member_id],
    )
    assert not clients.one(due, [one.member_id])
    clients.conn.execute("select gapless.evict(%s)", [one.member_id])
    assert two.poll() == []  # still a member
    clients.expire(two)
    assert clients.one(due, [one.member_id])


def test_a_partition_that_went_to_another_is_not_committed(wide: Clients) -> None:
    wide.publish(*"abcdefghijkl", *"abcdefghijkl")
    one = wide.join()
    found = one.poll()
    assert {each.partition_id for each in found} == {0, 1, 2, 3}
    two = wide.join()
    assert two.poll() == []  # one has all in hand still
    held = {each.partition_id: each.last_offset + 1 for each in found}
    ends = {p: [e.last_offset + 1 for e in found if e.partition_id == p] for p in held}
    going = wide.rows("select partition_id from gapless.lease where target = %s", [two.member_id])
    assert len(going) == 2
    first, second = (each.partition_id for each in going)
    assert one.commit(second, min(ends[second]))
    assert second in one.heartbeat().partitions  # more of it is in hand
    assert one.commit(first, held[first])  # and with that it is let go of
    assert wide.one("select owner from gapless.lease where partition_id = %s", [first]) is None
    assert one.heartbeat().partitions == sorted({0, 1, 2, 3} - {first})
    one.poll()  # which forgets what is in hand of the second
    with refused("GL007"):
        one.commit(second, held[second])
    again = two.poll()
    assert {each.partition_id for each in again} == {second}
    assert two.heartbeat().partitions == sorted([first, second])
    assert all(each.attempt == 2 for each in again[:1])
    with refused("GL007"):
        one.commit(second, again[-1].last_offset + 1)  # what two has in hand


def test_a_client_at_work_on_one_partition_polls_the_others(wide: Clients) -> None:
    wide.publish(*"abcdefghijkl")
    one = wide.join()
    found = one.poll()
    busy = found[0].partition_id
    rest = [each for each in range(4) if each != busy]
    assert {each.partition_id for each in one.poll(partitions=rest)} <= set(rest)
    wide.join()
    one.poll(partitions=rest)
    assert busy in one.heartbeat().partitions  # in hand: not let go of
    last = max(each.last_offset for each in found if each.partition_id == busy)
    assert one.commit(busy, last + 1)


def test_epochs_rise_and_are_given_out_once(clients: Clients) -> None:
    clients.publish("a")
    seen = []
    for _ in range(4):
        one = clients.join()
        one.poll()
        seen.append(clients.one("select epoch from gapless.consumer_offsets"))
        assert one.leave()
    assert seen == [1, 2, 3, 4]
    two = clients.join()
    assert [(each.c_offset, each.attempt) for each in two.poll()] == [(1, 5)]
    assert clients.one("select crashes from gapless.delivery") == 1  # who leaves has not died


def test_a_worker_that_is_at_work_still_is_waited_for(clients: Clients, dsn: str) -> None:
    """Its lock says so, whatever the lease says."""
    clients.publish("a")
    one = clients.join()
    with connect(dsn, role="worker") as other:
        other.execute("select pg_advisory_lock(7427003, lease_no) from gapless.lease")
        assert one.poll() == []
        assert clients.one("select epoch from gapless.lease") == 0
        other.execute("select pg_advisory_unlock_all()")
        assert one.offsets() == [1]


def test_a_lease_that_ends_while_a_commit_waits_is_seen(clients: Clients, dsn: str) -> None:
    clients.publish("a")
    one = clients.join()
    assert one.offsets() == [1]
    waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    with connect(dsn, role="test") as other, ThreadPoolExecutor(1) as pool:
        with other.transaction():
            other.execute("select from gapless.consumer_offsets for update")
            other.execute("update gapless.lease set owner = null, token = null")
            late = pool.submit(one.commit, 0, 2)
            while other.execute(waits, [clients.conn.info.backend_pid]).fetchone() != (1,):
                assert not late.done()
        with refused("GL007"):
            late.result()
    assert clients.next_offset() == 1


def test_a_commit_is_one_transaction_with_what_the_client_writes(clients: Clients) -> None:
    clients.publish("a")
    clients.conn.execute("create table public.paid (n int)")
    one = clients.join()
    assert one.offsets() == [1]
    with pytest.raises(ZeroDivisionError), clients.conn.transaction():
        clients.conn.execute("insert into public.paid values (1)")
        assert one.commit(0, 2)
        raise ZeroDivisionError
    assert clients.next_offset() == 1
    with clients.conn.transaction():
        clients.conn.execute("insert into public.paid values (1)")
        assert one.commit(0, 2)
    assert clients.rows("select n from public.paid") == [(1,)]
    assert clients.next_offset() == 2


def test_a_client_goes_on_after_a_seek(clients: Clients) -> None:
    clients.publish(*"abcdef")
    one = clients.join()
    assert one.offsets(max_events=4) == [1, 2, 3, 4]
    assert one.commit(0, 3)
    clients.conn.execute("select gapless.seek(%s, 'orders', 0, to_offset => 1)", [GROUP])
    with refused("GL007"):
        one.commit(0, 5)
    assert clients.next_offset() == 1
    assert one.offsets()[0] == 1
    assert one.commit(0, 2)


def test_a_redriven_unit_that_kills_its_members_is_given_up(clients: Clients) -> None:
    clients.publish("a")
    one = clients.join()
    one.poll()
    one.reject(0, 1)
    clients.conn.execute("select gapless.redrive_letter(%s, 'orders', 0, 1)", [GROUP])
    for _ in range(4):
        assert one.offsets() == [1]
        assert one.leave()  # who leaves has not died
        one = clients.join()
    handed = []
    for _ in range(4):
        handed.append(one.offsets() + one.offsets())
        clients.expire(one)
        one = clients.join()
    assert handed == [[1, 1], [1, 1], [1, 1], []]
    ((state, reason),) = clients.rows("select state, reason from gapless.dead_letter")
    assert state == "dead"
    assert "3 times" in reason


def test_no_redriven_unit_overtakes_one_that_a_person_has_in_hand(
    clients: Clients, dsn: str
) -> None:
    clients.publish("a", "b")
    one = clients.join()
    one.poll()
    for offset in (1, 2):
        one.reject(0, offset)
        clients.conn.execute("select gapless.redrive_letter(%s, 'orders', 0, %s)", [GROUP, offset])
    with connect(dsn, role="test") as other, other.transaction():
        other.execute("select from gapless.dead_letter where first_offset = 1 for update")
        assert one.poll() == []
    assert one.offsets() == [1, 2]


def test_a_unit_that_kills_its_members_is_given_up(clients: Clients) -> None:
    clients.publish("poison", "b", "c")
    handed: list[list[int]] = []
    for _ in range(6):
        one = clients.join()
        handed.append(one.offsets())
        assert one.offsets() == handed[-1][:1]  # to poll again is not to die
        if clients.next_offset() > 1:
            break
        clients.expire(one)
    # The first time with its neighbours; then alone, until max_crashes (3) members died of it alone.
    assert handed == [[1, 2, 3], [1], [1], [1], [2]]
    (dead,) = clients.rows("select first_offset, state, reason from gapless.dead_letter")
    assert dead[:2] == (1, "dead")
    assert "3 times" in dead.reason
    assert one.commit(0, 3)
    assert one.offsets() == [3]  # nobody blames those that were beside it


def test_a_paused_partition_gives_nothing_but_takes_commits(clients: Clients) -> None:
    clients.publish("a", "b")
    one = clients.join()
    assert one.offsets(max_events=1) == [1]
    clients.conn.execute("select gapless.pause(%s)", [GROUP])
    assert one.commit(0, 2)
    assert one.poll() == []
    assert one.heartbeat().partitions == []
    clients.conn.execute("select gapless.resume(%s)", [GROUP])
    assert one.offsets() == [2]


def test_what_is_in_hand_of_a_paused_partition_is_ended(clients: Clients) -> None:
    """By a heartbeat it is not let go of; what another had in hand is not in hand."""
    clients.publish("a", "b", "c")
    zero = clients.join()
    assert zero.offsets() == [1, 2, 3]
    clients.expire(zero)
    one = clients.join()
    assert one.offsets() == [1]
    clients.conn.execute("select gapless.pause(%s)", [GROUP])
    assert one.heartbeat().partitions == [0]
    assert one.commit(0, 2)
    assert one.heartbeat().partitions == []
    clients.conn.execute("select gapless.resume(%s)", [GROUP])
    assert one.offsets() == [2]
    one.reject(0, 2)
    clients.conn.execute("select gapless.redrive_letter(%s, 'orders', 0, 2)", [GROUP])
    assert one.offsets(max_events=1) == [2]
    clients.conn.execute("select gapless.pause(%s)", [GROUP])
    assert one.heartbeat().partitions == [0]
    one.commit_redriven(0, 2)
    assert one.heartbeat().partitions == []


@pytest.mark.long
def test_a_barrier_holds_clients_too(wide: Clients) -> None:
    wide.publish(*"abcdefghijkl")
    wide.conn.execute("select gapless.set_partitions('orders', 8)")
    wide.publish(*"abcdefghijkl")
    one = wide.join()
    seen: list[str] = []
    for _ in range(40):
        for each in one.poll(max_events=3):
            if each.c_offset == each.last_offset:
                one.commit(each.partition_id, each.last_offset + 1)
            seen.append(each.key)
    assert sorted(seen[:12]) == sorted("abcdefghijkl") or all(
        seen.count(key) == 2 for key in "abcdefghijkl"
    )
    assert len(seen) == 24


REFUSED = (
    ("select gapless.create_group('billing', 'orders', mode => 'queue')", "is a queue"),
    ("select gapless.set_direct('orders')", "direct messages"),
    ("select gapless.set_filter('billing', 'orders', array['x.*'])", "filter"),
)


@pytest.mark.parametrize("change", [each[0] for each in REFUSED[1:]])
def test_a_filter_that_comes_later_is_refused_too(clients: Clients, change: str) -> None:
    clients.publish("a")
    one = clients.join()
    clients.conn.execute(change)
    with refused("GL409"):
        one.poll()
    assert clients.next_offset() == 1


def test_status_and_doctor_know_a_client(clients: Clients, conn: Connection) -> None:
    one = clients.join(name="node one")
    clients.publish("a")
    one.poll()
    (member,) = clients.rows("select kind, is_present, owned from gapless.members")
    assert member == ("client", True, 1)
    (shown,) = to_document(snapshot(conn))["members"]
    assert (shown["member"], shown["kind"], shown["state"]) == ("node one", "client", "active")
    assert clients.rows("select owner, is_held from gapless.leases") == [("node one", True)]
    assert clients.rows("select * from gapless.check_leases()") == []
    assert clients.one("select supervisors from gapless.sessions_needed(1, 1, '{}', '{}', 1)") == 1


def test_who_leaves_with_a_redriven_unit_in_hand_did_not_die(clients: Clients) -> None:
    clients.publish("a")
    one = clients.join()
    one.poll()
    one.reject(0, 1)
    clients.conn.execute("select gapless.redrive_letter(%s, 'orders', 0, 1)", [GROUP])
    assert one.offsets() == [1]
    crashes = "select crashes, epoch from gapless.dead_letter"
    assert clients.rows(crashes)[0].crashes == 1
    assert one.leave()
    assert clients.rows(crashes) == [(0, None)]
