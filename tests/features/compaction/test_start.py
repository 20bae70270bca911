"""A group that begins with the newest event of each key: no gap, no doubles, none older after newer."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from features.compaction.kept import DELETED, Kept
from gapless import failpoints, ops
from gapless.consume.drive import Driver
from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.db.connect import connect
from gapless.features.retention.chunks import HistoryRetention, apply_retention
from gapless.lease import hold
from gapless.log.event import NewEvent
from gapless.log.topics import set_partitions
from gapless.ops.place import Point
from support.chunks import near_the_end
from support.turn import turn
from support.world import Group, World, make_handler

KEYS = [f"key {n}" for n in range(6)]


class Seen:
    """What a group's handler was called with: (key, value) in order; it refuses some values."""

    def __init__(self, *refused: Any) -> None:
        self.values: list[tuple[str | None, Any]] = []
        self.places: list[tuple[int, int, int]] = []
        self.refused = list(refused)

    def handler(self, **options: Any) -> Any:
        def take(unit: Unit, conn: Connection[Any]) -> None:
            for event in unit:
                if event.payload in self.refused:
                    raise ValueError(f"refused {event.payload}")
            self.values += [(event.key, event.payload) for event in unit]
            self.places += [(e.offset, unit.first_offset, unit.last_offset) for e in unit]

        return make_handler(take, **options)


def begin(kept: Kept, partition_id: int = 0) -> Group:
    return kept.world.group(partition_id, start="latest-per-key")


def drain(group: Group, seen: Seen, **limits: Any) -> None:
    what = seen.handler()
    while group.step(what, **limits).outcome == "done":
        pass


def upto(group: Group) -> Any:
    return group.world.value(
        "select max(latest_upto) from gapless.consumer_offsets"
        " where group_id = %s and next_offset < latest_upto",
        group.name,
    )


@pytest.mark.few(3)
@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("dropped", [False, True], ids=["log", "dropped"])
def test_it_reads_the_latest_of_each_key_and_then_the_log(
    kept: Kept, batch_size: int, dropped: bool
) -> None:
    kept.put(*[(key, n) for n in range(3) for key in KEYS], (KEYS[0], DELETED))
    kept.compact()
    if dropped:
        assert kept.drop()
        kept.compact()
    kept.put((KEYS[1], "not taken in"))
    group, seen = begin(kept), Seen()
    kept.put((KEYS[2], "new"))
    drain(group, seen, batch_size=batch_size)
    first = [each for each in seen.values if each[0] is not None]
    assert first == [(key, 2) for key in KEYS[1:]] + [(KEYS[1], "not taken in"), (KEYS[2], "new")]
    assert upto(group) is None
    assert group.next_offset() == kept.world.value(
        "select end_offset from gapless.log_ends(%s, 0)", kept.world.topic.topic_id
    )
    for offset, *unit in seen.places:
        assert unit == [offset, offset]
    group.conn.close()


def test_unit_that_was_taken_in_halfway_comes_from_the_log_whole(kept: Kept) -> None:
    kept.put(("other", "old"))
    kept.world.events([NewEvent(payload=n, key=key) for n, key in enumerate(KEYS)])
    assert kept.world.value("select gapless.compact(4)") == 4
    group, seen = begin(kept), Seen()
    assert upto(group) == 2
    drain(group, seen)
    assert seen.places == [(1, 1, 1), *[(offset, 2, 7) for offset in range(2, 8)]]
    group.conn.close()


@pytest.mark.long
@pytest.mark.parametrize("half", [4, 300])
def test_retention_amid_a_unit_of_two_chunks_in_which_the_compactor_stands(
    kept: Kept, half: int
) -> None:
    """Nothing of it goes until it was taken in whole: who begins meanwhile gets it whole (I5)."""
    world = kept.world
    near_the_end(world.conn, events=half)
    # A third of the keys have values in both halves: the newer one is in the second.
    values = [(f"key {n % (half // 2 * 3)}", n) for n in range(2 * half)]
    world.events([NewEvent(payload=n, key=key) for key, n in values])
    first, end, last = world.rows(
        "select min(o.id), (select min(upto) from gapless.chunk), max(o.id)"
        " from gapless.outbox_message_t o"
    )[0]
    assert first < end <= last
    kept.complete()
    amid = []
    for upto in (half - 1, half + half // 2):
        while (now := world.value("select next_offset from gapless.compaction")) <= upto:
            assert world.value("select gapless.compact(%s)", upto + 1 - now)
        assert world.value("select gapless.drop_chunk()") is None
        (reasons,) = world.rows("select reasons from gapless.retention_plan() order by upto")[0]
        waits = f"compaction of topic orders has yet to take in {2 * half - upto} events"
        assert any(waits in each for each in reasons)
        amid.append(begin(kept))
        assert amid[-1].next_offset() == 1
    kept.compact()
    assert world.value("select gapless.drop_chunk()") is None, "two groups have yet to read it"
    for group in amid:
        seen = Seen()
        drain(group, seen)
        assert [value for key, value in seen.values if key] == [*range(2 * half)]
        assert {each[1:] for each in seen.places[: 2 * half]} == {(1, 2 * half)}
        group.conn.close()
    assert apply_retention(world.conn, HistoryRetention(letters_s=1, audit_s=1))
    group, seen = begin(kept), Seen()
    drain(group, seen)
    found = [each for each in seen.values if each[0]]
    assert dict(found) == dict(values)
    assert len(found) == len(dict(values))
    group.conn.close()


def test_what_is_replaced_while_it_reads_comes_from_the_log(kept: Kept) -> None:
    kept.put(*[(key, "old") for key in KEYS])
    kept.compact()
    group, seen = begin(kept), Seen()
    group.step(seen.handler(), batch_size=2)
    kept.put((KEYS[0], "new"), (KEYS[3], "new"), (KEYS[4], DELETED), (KEYS[0], "newer"))
    kept.compact()
    drain(group, seen, batch_size=4)  # no row of latest but those below the log's beginning
    assert seen.values == [
        (KEYS[0], "old"), (KEYS[1], "old"), (KEYS[2], "old"), (KEYS[5], "old"),
        (KEYS[0], "new"), (KEYS[3], "new"), (KEYS[4], None), (KEYS[0], "newer"),
    ]  # fmt: skip
    group.conn.close()


def test_killed_between_two_batches_another_worker_goes_on(kept: Kept) -> None:
    kept.put(*[(key, n) for n, key in enumerate(KEYS)])
    kept.compact()
    group = begin(kept)
    group.step(batch_size=2)
    before = group.next_offset()
    group.conn.execute("begin")
    assert group.conn.execute(
        "select outcome from gapless.claim_kept(%s, %s, 0, %s, %s, 2, 10, null)",
        [
            group.name, group.world.topic.topic_id, group.assignment.epoch, group.assignment.token,
        ],
    ).fetchone() == ("claimed",)  # fmt: skip
    group.conn.close()  # in the middle of it
    assert group.next_offset() == before == 3
    assert upto(group) == 7


@pytest.mark.long
@pytest.mark.parametrize("parks", ["retry", "park-key"])
def test_what_fails_is_set_aside_with_its_event_though_the_log_has_it_no_more(
    kept: Kept, parks: Any
) -> None:
    kept.put(*[(key, n) for n, key in enumerate(KEYS)])
    kept.compact()
    assert kept.drop()
    group, seen = begin(kept), Seen(2)
    policy = Policy(on_failure=parks, retry_delays_s=(0.0,))
    kept.put((KEYS[2], "later"))
    group.drive(seen.handler(), policy=policy, batch_size=3)
    seen.refused.clear()
    group.drive(seen.handler(), policy=policy, batch_size=3)
    payloads = kept.world.rows(
        "select c_offset, payload from gapless.dead_letter_event where group_id = %s order by 1",
        group.name,
    )
    assert payloads[0] == (3, 2)
    if parks == "park-key":
        assert (KEYS[2], "later") not in seen.values
        assert [state for _, state in group.states().items()] == ["dead", "parked"]
    group.conn.close()


@pytest.mark.long
def test_at_least_once_handlers_begin_so_too(kept: Kept) -> None:
    kept.put(*[(key, n) for n in range(2) for key in KEYS])
    kept.compact()
    assert kept.drop()
    kept.compact()
    group = begin(kept)
    kept.put((KEYS[0], "new"))
    got: list[Any] = []
    call = make_handler(
        lambda unit: got.extend((e.key, e.payload) for e in unit), delivery="at-least-once"
    )
    group.drive(call, until_s=1.0)
    assert sorted(got[:6], key=str) == sorted([(key, 1) for key in KEYS], key=str)
    assert [each for each in got[6:] if each[0]] == [(KEYS[0], "new")]
    group.conn.close()


@pytest.mark.long
def test_older_event_of_a_key_that_moved_comes_before_its_newer_one(kept: Kept) -> None:
    """Partitions go to the log one by one: the new one waits for the old (barriers)."""
    world = kept.world
    kept.put(*[(key, "old") for key in KEYS])
    set_partitions(world.conn, world.topic.name, 2)
    kept.compact()
    old = begin(kept)
    kept.put(*[(key, "new") for key in KEYS])
    new_conn = _second(world, old)
    seen = Seen()
    drain(new_conn, seen)
    assert seen.values == []
    drain(old, seen)
    drain(new_conn, seen)
    assert sorted(seen.values[:6]) == [(key, "old") for key in KEYS]
    for key in KEYS:
        assert [value for k, value in seen.values if k == key] == ["old", "new"]
    new_conn.conn.close()
    old.conn.close()


def _second(world: World, group: Group) -> Group:
    """The same group's other partition, owned by another session."""
    conn = connect(world.dsn, role="worker")
    lease = next(o for o in group.member.leases() if o.partition.partition_id == 1)
    assert hold.lock(conn, lease.lease_no)
    assignment = hold.take(conn, lease.partition, group.member.member_id)
    assert assignment is not None
    assert hold.install(conn, assignment) is not None
    return Group(world, conn, group.member, assignment, group.name)


def test_dropped_event_that_was_replaced_meanwhile_is_asked_for_again(kept: Kept) -> None:
    """Read by its id after the claim: it is not there, and not missing either."""
    kept.put(("a", 1))
    kept.compact()
    assert kept.drop()
    ((message_id,),) = kept.world.rows("select id from gapless.latest")
    kept.put(("a", 2))
    kept.compact()
    with pytest.raises(psycopg.errors.SerializationFailure, match="not the latest of its key"):
        kept.world.conn.execute("select gapless.events_beside_of(array[%s])", [message_id])


@pytest.mark.long
def test_replaced_between_the_claim_and_a_retry_the_step_is_taken_again(kept: Kept) -> None:
    """Where the events of a claim are read one by one, with each call."""
    kept.put(*[(key, 1) for key in KEYS])
    kept.compact()
    assert kept.drop()
    group = begin(kept)
    group.failing = {3}
    failpoints.arm({"isolate.claimed": lambda _: replace(kept, KEYS[4])})
    with pytest.raises(psycopg.errors.SerializationFailure, match="not the latest of its key"):
        group.step(stream_above_events=1)
    failpoints.arm({})
    while group.step().outcome == "done":
        pass
    assert group.effects()[:4] == [1, 2, 4, 6]
    assert group.effects()[-1] == group.next_offset() - 1
    assert list(group.letters()) == [3]
    group.conn.close()


@pytest.mark.long
def test_replaced_between_the_claim_and_a_retry_what_was_claimed_is_handled(kept: Kept) -> None:
    """Events that the failed batch had in memory are not read again: the claim came before."""
    kept.put(*[(key, 1) for key in KEYS])
    kept.compact()
    assert kept.drop()
    group = begin(kept)
    group.failing = {3}
    failpoints.arm({"isolate.claimed": lambda _: replace(kept, KEYS[4])})
    done = group.step()
    assert (done.outcome, done.dead) == ("done", 1)
    while group.step().outcome == "done":
        pass
    assert group.effects()[:5] == [1, 2, 4, 5, 6]
    assert group.effects()[-1] == group.next_offset() - 1
    assert list(group.letters()) == [3]
    group.conn.close()


def test_replaced_between_the_look_and_the_call_it_is_not_called(kept: Kept) -> None:
    kept.put(*[(key, 1) for key in KEYS])
    kept.compact()
    assert kept.drop()
    group = begin(kept)
    got: list[Any] = []
    call = make_handler(
        lambda unit: got.extend((e.key, e.payload) for e in unit), delivery="at-least-once"
    )
    driver = Driver(turn(group.conn, group.assignment, call))
    failpoints.arm({"deliver.noted": lambda _: replace(kept, KEYS[0])})
    with pytest.raises(psycopg.errors.SerializationFailure, match="not the latest of its key"):
        for _ in range(5):
            driver.turn()
    failpoints.arm({})
    for _ in range(40):
        driver.turn()
    keyed = [each for each in got if each[0]]
    assert sorted(keyed[:5]) == [(key, 1) for key in KEYS[1:]]
    assert keyed[5:] == [(KEYS[0], "new")]
    group.conn.close()


def replace(kept: Kept, key: str) -> None:
    """Let a newer event take the place of a key's, once."""
    failpoints.arm({})
    kept.put((key, "new"))
    kept.compact()


def test_seek_ends_it(kept: Kept) -> None:
    kept.put(*[(key, n) for n in range(2) for key in KEYS])
    kept.compact()
    group = begin(kept)
    group.conn.close()
    group.member.leave()
    ops.seek(kept.world.conn, ops.GroupPlace(group=group.name), Point(end="earliest"))
    assert (group.next_offset(), upto(group)) == (1, None)
