"""Groups with a filter: what does not match is passed; nothing is lost, doubled or torn (I3, I5, I6)."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection
from psycopg.types.json import Jsonb

from gapless.consume.read.backlog import Backlog
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import Policy
from gapless.errors import BlockedError, HoleError, UnplacedError
from gapless.features.filters import reader
from gapless.log.event import NewEvent
from support.blocked import until_blocked
from support.patience import patience
from support.twins import SEEKS
from support.world import Group, Reader, World, make_handler

Filled = Sequence[Sequence[str]]
"""Units, each the types of its events."""


def fill(world: World, units: Filled, **fields: Any) -> None:
    """Publish these units, in one run of the sequencer."""
    world.events(
        NewEvent(payload={}, event_type=each, transaction_id=id_, **fields)
        for unit in units
        for id_ in [uuid4()]
        for each in unit
    )


def let_take(group: Group, *types: str, **more: Any) -> bool:
    """Give the group a filter by event types."""
    return bool(
        group.world.value(
            "select gapless.set_filter(%s, %s, %s, %s, %s::jsonb)",
            group.name, group.world.topic.name, list(types) or None,
            more.get("where"), Jsonb(more["params"]) if "params" in more else None,
        )
    )  # fmt: skip


def expected(units: Filled, keeps: Callable[[str], bool]) -> list[list[int]]:
    """The offsets that a handler is called with, call by call."""
    calls, offset = [], 0
    for unit in units:
        places = range(offset + 1, offset + len(unit) + 1)
        calls.append([o for o, each in zip(places, unit, strict=True) if keeps(each)])
        offset += len(unit)
    return [each for each in calls if each]


KINDS = ["a.x", "a.y", "b.x", "c"]
CHILD = Path(__file__).parents[2] / "support" / "programs" / "child.py"


class Calls:
    """A handler that writes its effects, and remembers what it was called with."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.seen: list[list[int]] = []

    @property
    def handler(self) -> Handler:
        def take(unit: Unit, conn: Connection[Any]) -> None:
            assert len(unit) == len(list(unit))
            self.seen.append([event.offset for event in unit])
            self.group.effect(unit, conn)
            self.group.refuse(unit)

        return make_handler(take)


UNITS: Filled = [
    ["order.placed", "stock"],
    ["stock"],
    ["stock", "stock", "order.paid"],
    ["order"],
    ["order.placed"],
    ["stock"],
]


@pytest.mark.few(3)
@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
@pytest.mark.parametrize("alone", [False, True])
def test_handler_gets_what_matches_of_whole_units(
    world: World, group: Group, batch_size: int, alone: bool
) -> None:
    fill(world, UNITS)
    let_take(group, "order.*")
    calls = Calls(group)
    while (group.step_alone if alone else group.step)(
        calls.handler, batch_size=batch_size
    ).outcome == "done":
        pass
    assert calls.seen == [[1], [6], [8]]
    assert group.effects() == [1, 6, 8]
    assert group.next_offset() == 10
    assert not group.letters()


@pytest.mark.parametrize(
    ("types", "keeps"),
    [
        (["order"], {"order"}),
        (["order*"], {"order", "order.x", "orders"}),
        (["*.x"], {"order.x", "100%.x"}),
        (["o*r*x"], {"order.x"}),
        (["100%.x"], {"100%.x"}),
        (["or_er"], set()),
        (["back\\slash"], {"back\\slash"}),
        (["back\\*"], {"back\\slash"}),
        (["*"], {"order", "order.x", "orders", "100%.x", "back\\slash", None}),
        (["order", "orders"], {"order", "orders"}),
    ],
)
def test_star_is_the_only_wildcard(
    shared_world: World, types: list[str], keeps: set[str | None]
) -> None:
    world = shared_world.another_topic()
    group = world.group()
    there = ["order", "order.x", "orders", "100%.x", "back\\slash", None]
    world.events(NewEvent(payload={}, event_type=each) for each in there)
    let_take(group, *types)
    seen: list[str | None] = []
    group.step(make_handler(lambda unit, conn: seen.extend(e.event_type for e in unit)))
    assert set(seen) == keeps
    group.conn.close()


def test_range_is_passed_that_keeps_nothing_and_its_commit_is_the_only_one(
    world: World, group: Group
) -> None:
    fill(world, [["stock"]] * 500)
    let_take(group, "order.*")
    calls = Calls(group)
    done = group.step(calls.handler, batch_size=10)
    assert (done.outcome, done.events, done.units, done.next_offset) == ("done", 0, 0, 501)
    assert not calls.seen
    assert group.step(calls.handler).outcome == "idle"


@pytest.mark.long
def test_claim_looks_at_ten_thousand_events_at_most(world: World, group: Group) -> None:
    fill(world, [["stock"]] * 12_000)
    let_take(group, "order.*")
    assert group.step(batch_size=10).next_offset == 10_001
    assert group.step(batch_size=10).next_offset == 12_001


class TestChanges:
    @pytest.mark.long
    def test_acts_on_what_was_read_ahead(self, world: World, group: Group) -> None:
        fill(world, [["order"], ["stock"]] * 100)
        reader = Reader(group, continue_while=False)
        for _ in range(3):
            reader.step(10)
        assert reader.ahead.units, "nothing was read ahead"
        done = group.next_offset()
        let_take(group, "order")
        while reader.step(10).outcome == "done":
            pass
        assert group.effects() == [*range(1, done), *range(done + (done + 1) % 2, 201, 2)]
        assert group.next_offset() == 201

    def test_cleared_it_takes_all_again(self, world: World, group: Group) -> None:
        fill(world, UNITS)
        let_take(group, "order")
        reader = Reader(group)
        while reader.step(2).outcome == "done":
            pass
        assert group.effects() == [7]
        assert world.value("select gapless.clear_filter(%s, %s)", group.name, world.topic.name)
        fill(world, [["stock"]])
        while reader.step(2).outcome == "done":
            pass
        assert group.effects() == [7, 10]

    def test_one_set_while_a_batch_is_in_hand_waits_for_it(
        self, world: World, group: Group
    ) -> None:
        fill(world, [["order"], ["stock"]])
        with psycopg.connect(world.dsn, autocommit=True) as other:

            def take(unit: Unit, conn: Connection[Any]) -> None:
                other.execute("set lock_timeout = '50ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute(
                        "select gapless.set_filter(%s, %s, array['x'])",
                        [group.name, world.topic.name],
                    )

            group.step(make_handler(take), batch_size=1)

    def test_claim_that_does_not_know_it_is_told_so_before_anything_else(
        self, world: World, group: Group
    ) -> None:
        """Not 'idle', not 'hole': these would be answers about events that it does not take."""
        let_take(group, "order")
        ask = "select a.outcome from gapless.claim_at(%s, %s, 0, %s, %s, 10, 0, null, 'transaction', %s) a"
        place = (
            group.name, group.assignment.partition.topic_id,
            group.assignment.epoch, group.assignment.token,
        )  # fmt: skip
        number = world.value(
            "select filter_no from gapless.consumer_offsets where group_id = %s", group.name
        )
        assert world.rows(ask, *place, 0) == [("filtered",)]
        assert world.rows(ask, *place, number) == [("idle",)]

    def test_one_whose_place_moves_between_the_look_and_the_claim(
        self, world: World, group: Group
    ) -> None:
        """As gapless skip moves it: the look waits for the log, and the claim sees where it is then."""
        fill(world, [["order"], ["stock"], ["order"], ["order"]])
        let_take(group, "order")
        with psycopg.connect(world.dsn) as other, ThreadPoolExecutor(1) as pool:
            other.execute("lock table gapless.log_segment in access exclusive mode")
            other.execute(SEEKS)
            moves = "update gapless.consumer_offsets set next_offset = 3 where group_id = %s"
            other.execute(moves, [group.name])
            future = pool.submit(group.step, batch_size=10)
            until_blocked(world.conn, group.conn, future)
            other.commit()
            assert future.result(patience(10.0)).outcome == "done"
        assert (group.effects(), group.next_offset()) == ([3, 4], 5)

    def test_one_set_between_a_failure_and_the_search_for_its_unit(
        self, world: World, group: Group, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The search claims again; what it has to handle was read by the filter of before."""
        fill(world, [["order"], ["stock"], ["order"], ["stock"]])
        let_take(group, "order")
        group.failing = {3}
        claim_again = Backlog.claim_again
        calls = Calls(group)

        def changed(*given: Any) -> Any:
            monkeypatch.setattr(Backlog, "claim_again", claim_again)
            let_take(group, "stock")
            return claim_again(*given)

        monkeypatch.setattr(Backlog, "claim_again", changed)
        while group.step(calls.handler).outcome != "idle" or group.next_offset() < 5:
            pass
        assert Backlog.claim_again is claim_again, "nothing was isolated"
        assert group.effects() == [2, 4]
        assert not group.letters()

    @pytest.mark.long
    def test_another_one_counts_anew(self, world: World, group: Group) -> None:
        fill(world, UNITS)
        let_take(group, "order.*")
        assert tally(group) == [(0, 0, 0, None)]
        group.step(batch_size=2)
        group.failing = {8}
        group.step(batch_size=100)
        assert tally(group) == [(3, 6, 0, None)]
        let_take(group, "stock")
        assert tally(group) == [(0, 0, 0, None)]
        fill(world, UNITS)
        group.step(batch_size=100)
        assert tally(group) == [(5, 4, 0, None)]

    def test_partitions_that_come_later_have_it(self, world: World, group: Group) -> None:
        let_take(group, "order")
        world.value("select gapless.set_partitions(%s, 4)", world.topic.name)
        world.value("select gapless.create_group(%s, %s)", group.name, world.topic.name)
        numbers = "select count(*), count(distinct filter_no), min(filter_no) > 0 from gapless.consumer_offsets where group_id = %s"
        assert world.rows(numbers, group.name) == [(4, 1, True)]


def test_group_whose_row_is_gone_is_told_so(world: World, group: Group) -> None:
    fill(world, UNITS)
    let_take(group, "order")
    reader = Reader(group)
    reader.step(1)
    world.conn.execute("delete from gapless.consumer_offsets where group_id = %s", [group.name])
    with pytest.raises(UnplacedError):
        reader.step(1)


class TestFailures:
    @pytest.mark.long
    def test_unit_is_set_aside_whole_and_tried_again_with_what_was_kept(
        self, world: World, group: Group
    ) -> None:
        fill(world, UNITS)
        let_take(group, "order.*")
        group.failing = {4}
        calls = Calls(group)
        policy = Policy(on_failure="retry", retry_delays_s=(0.0,))
        group.drive(calls.handler, until_s=5.0, policy=policy)
        assert group.effects() == [1, 8]
        assert [each for each in calls.seen if each == [6]] == [[6]] * len(
            [each for each in calls.seen if each[0] in (4, 5, 6)]
        )
        rows = world.rows(
            "select c_offset, is_kept from gapless.dead_letter_event where group_id = %s"
            " order by c_offset",
            group.name,
        )
        assert rows == [(4, False), (5, False), (6, True)]
        group.failing = set()
        world.value("select gapless.redrive_letter(%s, %s, 0, 4)", group.name, world.topic.name)
        group.drive(calls.handler, policy=policy)
        assert calls.seen[-1] == [6]
        assert group.effects() == [1, 8, 6]

    @pytest.mark.few(3)
    @pytest.mark.parametrize("units_per_commit", [1, 3, 64])
    @pytest.mark.parametrize("batch", [False, True])
    def test_only_those_that_fail_are_set_aside(
        self, world: World, group: Group, units_per_commit: int, batch: bool
    ) -> None:
        fill(world, [["order", "stock"], ["stock"]] * 40)
        let_take(group, "order")
        group.failing = {1, 31, 34, 118}
        limits = {"units_per_commit": units_per_commit, "batch_size": 16}
        handler = group.batch_handler if batch else group.handler
        while group.step(handler, **limits).outcome == "done":
            pass
        kept = set(range(1, 121, 3))
        assert group.effects() == sorted(kept - group.failing)
        assert set(group.states()) == group.failing
        assert group.next_offset() == 121

    @pytest.mark.long
    def test_park_key_parks_what_comes_behind(self, world: World, group: Group) -> None:
        fill(world, [["stock"], ["order", "stock"], ["stock"], ["order"]], key="k")
        let_take(group, "order")
        group.failing = {2}
        policy = Policy(on_failure="park-key", retry_delays_s=(3600.0,))
        group.drive(policy=policy)
        assert group.states() == {2: "waiting", 5: "parked"}
        assert not group.effects()
        group.failing = set()
        let_take(group, "stock")  # its filter of now: they are handled as they were claimed
        world.value("select gapless.redrive_letter(%s, %s, 0, 2)", group.name, world.topic.name)
        group.drive(policy=policy)
        assert group.effects() == [2, 5]

    def test_unit_that_kills_its_worker_is_known(self, world: World, group: Group) -> None:
        fill(world, [["stock"], ["stock", "order"], ["order"]])
        let_take(group, "order")
        world.conn.execute(
            "update gapless.consumer_offsets set attempts = 3, attempt_offset = 1 where group_id = %s",
            [group.name],
        )
        assert group.step_alone(policy=Policy(crashes_max=3)).dead == 1
        assert group.states() == {2: "dead"}
        while group.step_alone().outcome == "done":
            pass
        assert group.effects() == [4]


@pytest.mark.long
def test_units_too_large_for_memory_are_read_in_slices(world: World, group: Group) -> None:
    """Of the log, and again of those set aside: only what matches, at its own offsets."""
    fill(world, [["stock"], ["order", "stock"] * 1600, ["order"]])
    let_take(group, "order")
    group.failing = {2}
    calls = Calls(group)
    group.drive(calls.handler, stream_above_events=1000)
    large = list(range(2, 3202, 2))
    assert calls.seen[-1] == [3202]
    assert all(each == large for each in calls.seen[:-1] if each != [3202])
    assert group.states() == {2: "dead"}
    assert group.effects() == [3202]
    group.failing = set()
    world.value("select gapless.redrive_letter(%s, %s, 0, 2)", group.name, world.topic.name)
    group.drive(calls.handler, stream_above_events=1000)
    assert calls.seen[-1] == large
    assert group.effects() == [3202, *large]


class TestHoles:
    def test_event_that_is_missing_stops_the_group_before_its_unit(
        self, world: World, group: Group
    ) -> None:
        fill(world, [["order"], ["stock", "stock"], ["stock", "order"], ["order"]])
        let_take(group, "order")
        world.conn.execute(
            "delete from gapless.outbox_message_t where id = (select message_ids[4] from gapless.log_segment)"
        )
        group.step(batch_size=100)
        assert group.effects() == [1]
        assert group.next_offset() == 4
        with pytest.raises(HoleError):
            group.step(batch_size=100)
        assert group.next_offset() == 4


def child_on(world: World, group: Group) -> subprocess.CompletedProcess[bytes]:
    """Let another process work for the group; it is killed, or ends when nothing is left."""
    assignment = {
        "partition": asdict(group.assignment.partition),
        "epoch": group.assignment.epoch,
        "token": str(group.assignment.token),
    }
    words = [sys.executable, str(CHILD), "time", world.dsn, json.dumps(assignment)]
    return subprocess.run(words, check=False, capture_output=True, timeout=60)


@pytest.mark.long
def test_killed_at_any_time_it_handles_each_once_and_passes_the_rest(
    world: World, group: Group
) -> None:
    """I5, I6: the offset passes what does not match in the commit that handles what does."""
    draw = Random(7)
    units = [[draw.choice(KINDS) for _ in range(draw.choice([1, 1, 2, 5]))] for _ in range(900)]
    fill(world, units)
    let_take(group, "a.*")
    kills = 0
    for _ in range(25):
        child = child_on(world, group)
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGALRM, child.stderr.decode()
        kills += 1
    assert kills >= 3, "hardly any kill: make it slower"
    while group.step(batch_size=50).outcome == "done":  # what a slow machine has left
        pass
    calls = expected(units, lambda kind: kind.startswith("a."))
    assert group.effects() == [offset for each in calls for offset in each]
    assert group.next_offset() == sum(map(len, units)) + 1
    kept = sum(map(len, calls))
    assert tally(group) == [(kept, sum(map(len, units)) - kept, 0, None)]


def tally(group: Group) -> list[Any]:
    """What the filter of the group kept and passed; about how many it could not be asked, and the last."""
    return group.world.rows(
        "select kept, passed, unasked, unasked_offset from gapless.filters where group_id = %s",
        group.name,
    )


class TestOutside:
    """At least once: the window over the log holds what is passed, too."""

    @pytest.mark.long
    def test_what_matches_is_called_and_the_rest_is_passed(
        self, world: World, group: Group
    ) -> None:
        fill(world, [["stock"], ["stock", "order"], *[["stock"]] * 50, ["order"], ["stock"]])
        let_take(group, "order")
        called: list[list[int]] = []
        outside = make_handler(
            lambda unit: called.append([event.offset for event in unit]), delivery="at-least-once"
        )
        group.drive(outside, batch_size=3)
        assert called == [[3], [54]]
        assert group.next_offset() == 56
        fill(world, [["stock"]] * 30)
        group.drive(outside, batch_size=3)
        fill(world, [["order"]])
        group.drive(outside, batch_size=3)
        assert called == [[3], [54], [86]]
        assert group.next_offset() == 87


class TestConditions:
    def seen(self, group: Group) -> list[tuple[int, str | None]]:
        found: list[tuple[int, str | None]] = []
        take = make_handler(
            lambda unit, conn: found.extend((e.offset, e.filter_error) for e in unit)
        )
        while group.step(take, batch_size=2).outcome == "done":
            pass
        return found

    def test_what_cannot_be_asked_is_delivered_and_says_why(
        self, world: World, group: Group
    ) -> None:
        payloads = (
            b'{"a": "\\u0000", "total": 1}', b'{"total": 1e999999}', b'{"total": 500}',
            b'{"total": 1}',
        )  # fmt: skip
        world.events(NewEvent(payload=each, transaction_id=uuid4()) for each in payloads)
        let_take(group, where="$.total > 100")
        found = self.seen(group)
        assert [offset for offset, _ in found] == [1, 2, 3]
        assert "could not be asked" in str(found[0][1])
        assert "could not be asked" in str(found[1][1])
        assert tally(group) == [(3, 1, 2, 2)]
        assert found[2][1] is None

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        "where", ["1 / $.total > 0", "$.total.double() > 1", "$.nothing", '$.s starts with "x"']
    )
    def test_one_that_cannot_be_said_keeps_nothing_and_raises_nothing(
        self, world: World, group: Group, where: str
    ) -> None:
        world.events([NewEvent(payload={"total": 0, "s": "abc"})])
        let_take(group, where=where)
        assert not self.seen(group)
        assert group.next_offset() == 2

    def test_a_jsonpath_that_takes_too_long_is_named_and_nothing_is_lost(
        self, world: World, group: Group, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each number of the array is compared with each: 400 million times."""
        monkeypatch.setattr(reader, "KEPT_S_MAX", 0.2)
        world.events([NewEvent(payload={"a": list(range(20_000))})])
        let_take(group, where="exists($.a[*] ? ($.a[*] > @ + 1000000))")
        with pytest.raises(BlockedError, match=r"a jsonpath of its filter .* longer than 0\.2 s"):
            self.seen(group)
        assert group.next_offset() == 1
        world.value("select gapless.clear_filter(%s, %s)", group.name, world.topic.name)
        assert len(self.seen(group)) == 1
        assert group.next_offset() == 2

    @pytest.mark.parametrize(
        "where", ['$.a == "$" && $.b == "x"', '$."$" == 1', '$.a == "\\"$min\\""', "$.a > $min"]
    )
    def test_text_and_keys_are_no_variables(self, shared_world: World, where: str) -> None:
        world = shared_world.another_topic()
        world.value("select gapless.create_group('accepted', %s)", world.topic.name)
        assert world.value(
            "select gapless.set_filter('accepted', %s, null, %s, %s)",
            world.topic.name, where, Jsonb({"min": 1}),
        )  # fmt: skip


def act(draw: Random, calls: Calls, reader: Reader, offset: int) -> list[list[str]]:
    """Publish some units, and take some steps; return those units."""
    group = calls.group
    sizes = [draw.choice([1, 1, 1, 2, 5]) for _ in range(draw.randrange(30))]
    more = [[draw.choice(KINDS) for _ in range(size)] for size in sizes]
    if more:
        fill(group.world, more)
    firsts = [offset + sum(sizes[:n]) + 1 for n in range(len(sizes))]
    group.failing |= {first for first in firsts if draw.random() < 0.1}
    for _ in range(draw.randrange(4)):
        if draw.random() < 0.3:
            group.step_alone(calls.handler)
        else:
            size, savepoints = draw.choice([1, 2, 5, 50]), draw.choice([1, 4, 64])
            reader.step(size, calls.handler, units_per_commit=savepoints)
    return more


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(6))
def test_random_histories(world: World, group: Group, seed: int) -> None:
    """Drawn: units, filters, batch sizes, failures, when the sequencer runs. Each event once, or passed."""
    draw = Random(seed)
    wanted = draw.choice([["a.*"], ["c"], ["*.x"], ["b.x", "c"]])
    let_take(group, *wanted)
    units: list[list[str]] = []
    calls = Calls(group)
    reader = Reader(group)
    for _ in range(12):
        units += act(draw, calls, reader, sum(map(len, units)))
    while reader.step(10, calls.handler).outcome == "done":
        pass

    called = expected(units, lambda kind: any(fnmatchcase(kind, each) for each in wanted))
    firsts = {o: first for first, o in _places(units)}
    failed = {o for o in (o for each in called for o in each) if firsts[o] in group.failing}
    assert group.effects() == [o for each in called for o in each if o not in failed]
    letters = "select c_offset from gapless.dead_letter_event where group_id = %s and is_kept"
    assert {row[0] for row in world.rows(letters, group.name)} == failed
    assert {tuple(each) for each in calls.seen} == {tuple(each) for each in called}
    assert group.next_offset() == sum(map(len, units)) + 1


def _places(units: Filled) -> list[tuple[int, int]]:
    offset, places = 1, []
    for unit in units:
        places += [(offset, o) for o in range(offset, offset + len(unit))]
        offset += len(unit)
    return places
