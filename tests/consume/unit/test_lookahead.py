"""What of the log is read ahead, when, and which units may be called; a suspect is alone.

With a clock that stands still; claims, keys and what was delivered before are as a test wants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest

import gapless
from gapless.consume.job import Job
from gapless.consume.outside import lookahead as module
from gapless.consume.outside.lookahead import AHEAD_EVENTS, LOOK_AT_END_S, LOOK_S, Lookahead
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.unit import Span, UnitRanges
from gapless.consume.user.handler import Handler
from gapless.errors import HoleError
from gapless.features.filters.filtered import Kept, PassedSpan, kept_spans
from gapless.keys import Assignment, Partition
from support.turn import turn

CONN: Any = "the session"
PLACE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=3)
OURS = Assignment(partition=PLACE, epoch=5, token=UUID(int=1))


class World:
    """The log: units of `size` events from offset 11 on, each with a key of its own unless `keys`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.begin, self.units, self.size = 11, 0, 2
        self.outcome: Any = "claimed"
        self.peeks: list[int] = []
        self.rolled_back: list[bool] = []
        self.holes: list[HoleError] = []
        self.kept: list[int] | None = None
        self.keys: dict[int, str] = {}
        self.deliveries: list[tuple[int, int, bool]] = []
        self.asked: list[str] = []
        self.loaded: list[list[int]] = []
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "transaction", self._transaction)
        monkeypatch.setattr(module, "run", self.run)
        monkeypatch.setattr(module, "Parking", self)
        made: Handler = gapless.handler(topic="orders", delivery="at-least-once")(_handle)
        ahead: Any = self
        self.job = turn(CONN, OURS, made, ahead, concurrency=2, batch_size=4)

    @contextmanager
    def _transaction(self, conn: object) -> Iterator[None]:
        assert conn is CONN
        try:
            yield
        except BaseException as error:
            self.rolled_back.append(isinstance(error, psycopg.Rollback))
            raise
        self.rolled_back.append(False)

    def ask(self, conn: object, ours: object, wanted: Wanted) -> Claim:
        assert (conn, ours) == (CONN, OURS)
        assert wanted == Wanted(wanted.batch_size)
        self.peeks.append(wanted.batch_size)
        if self.holes:
            raise self.holes.pop(0)
        if self.outcome != "claimed" or not self.units:
            return Claim(outcome="idle" if self.outcome == "claimed" else self.outcome)
        units = min(self.units, -(-wanted.batch_size // self.size))
        ids = list(range(self.begin, self.begin + self.size * units))
        spans = UnitRanges(self.begin, ids, [self.size * (n + 1) for n in range(units)])
        if self.kept is not None:
            kept = [each for each in self.kept if each in ids]
            spans = kept_spans(spans, Kept(ids=kept, offsets=kept))
        return Claim(outcome="claimed", first_offset=self.begin, spans=spans)

    def run(self, conn: object, name: str, params: object) -> list[tuple[int, int, bool]]:
        assert (conn, params) == (CONN, PLACE.params)
        self.asked.append(name)
        return self.deliveries

    # -- Parking ----------------------------------------------------------------------------------

    def load(self, job: Job, spans: Sequence[Span]) -> World._Sieve:
        assert job is self.job
        self.loaded.append([span.first_offset for span in spans])
        return self._Sieve({
            span.first_offset: {self.keys.get(span.first_offset, str(span.first_offset)).encode()}
            for span in spans
        })  # fmt: skip

    class _Sieve:
        def __init__(self, keys: dict[int, set[bytes]]) -> None:
            self.keys = keys

    def passed(self, ahead: Lookahead, units: int) -> None:
        """Have so many units handled, and the offset behind them."""
        window = ahead.window
        window.finish([self.begin + 2 * n for n in range(units)])
        window.pass_(units)
        self.begin += 2 * units
        self.units -= units


def _handle(unit: object) -> None: ...


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def _firsts(spans: Sequence[Span]) -> list[int]:
    return [span.first_offset for span in spans]


# -- when it looks --------------------------------------------------------------------------------


def test_an_empty_log_is_looked_at_each_turn(world: World) -> None:
    ahead = Lookahead()
    assert ahead.wait_s == LOOK_S
    assert ahead.look(world.job) == "idle"
    assert ahead.look(world.job) == "idle"
    assert world.peeks == [4, 4]
    assert world.rolled_back == [False, False]
    assert ahead.wait_s == LOOK_S
    assert ahead.choose(world.job, []) == []


def test_few_units_that_are_left_are_a_reason_to_read_more(world: World) -> None:
    world.units = 20
    ahead = Lookahead()
    assert ahead.look(world.job) == "claimed"
    assert (ahead.window.begin, ahead.window.end) == (11, 15)
    assert world.rolled_back == [True, False], "nothing is claimed"
    ahead.look(world.job)
    assert (world.peeks, ahead.window.end) == ([4, 8], 19)
    ahead.look(world.job)
    assert world.peeks == [4, 8], "that is enough for now"
    ahead.choose(world.job, [1])
    assert ahead.window.open == 3
    ahead.look(world.job)
    assert world.peeks == [4, 8, 12]
    assert ahead.window.end == 23
    assert ahead.wait_s == LOOK_S


def test_what_cannot_be_called_is_a_reason_as_well(world: World) -> None:
    world.units = 20
    world.keys = dict.fromkeys(range(11, 60), "k")
    ahead = Lookahead()
    for _ in range(2):
        ahead.look(world.job)
    assert _firsts(ahead.choose(world.job, [])) == [11]
    for _ in range(3):
        ahead.look(world.job)
    assert world.peeks == [4, 8, 12, 16, 20]


def test_so_much_is_read_ahead_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert AHEAD_EVENTS == 10_000
    monkeypatch.setattr(module, "AHEAD_EVENTS", 6)
    world.units = 20
    world.keys = dict.fromkeys(range(11, 60), "k")
    ahead = Lookahead()
    ahead.look(world.job)
    ahead.choose(world.job, [])
    for _ in range(3):
        ahead.look(world.job)
    assert world.peeks == [4, 6]
    assert ahead.window.events == 6


@pytest.mark.parametrize("now_s", [0.5, 1000.0])
def test_as_long_as_there_is_more_it_looks_at_once(world: World, now_s: float) -> None:
    world.units, world.now_s = 20, now_s
    ahead = Lookahead()
    for _ in range(2):
        ahead.look(world.job)
    assert world.peeks == [4, 8]


@pytest.mark.parametrize("size", [1, 2])
def test_when_its_time_has_come_it_looks_again(world: World, size: int) -> None:
    world.units, world.size = 1, size
    ahead = Lookahead()
    for _ in range(3):
        ahead.look(world.job)
    assert (len(world.peeks), ahead.window.events) == (2, size)
    world.now_s += LOOK_AT_END_S
    ahead.look(world.job)
    assert len(world.peeks) == 3


def test_at_the_end_of_the_log_it_does_not_look_at_once(world: World) -> None:
    world.units = 1
    ahead = Lookahead()
    ahead.look(world.job)
    assert ahead.window.events == 2
    ahead.look(world.job)
    assert len(world.peeks) == 2
    ahead.look(world.job)
    assert len(world.peeks) == 2
    assert ahead.wait_s == pytest.approx(LOOK_AT_END_S)
    world.now_s += LOOK_AT_END_S / 2
    ahead.look(world.job)
    assert len(world.peeks) == 2
    assert ahead.wait_s == pytest.approx(LOOK_AT_END_S / 2)
    world.now_s += LOOK_AT_END_S
    assert ahead.wait_s == 0.0
    world.units = 2
    ahead.look(world.job)
    assert len(world.peeks) == 3
    assert ahead.window.events == 4
    assert ahead.wait_s == LOOK_S
    ahead.look(world.job)
    assert len(world.peeks) == 4, "there was more"


def test_now_and_then_it_looks_whether_the_group_is_paused(world: World) -> None:
    world.units = 20
    ahead = Lookahead()
    for _ in range(3):
        ahead.look(world.job)
    before = len(world.peeks)
    world.outcome = "idle"
    world.now_s += LOOK_S - 0.001
    assert ahead.look(world.job) == "claimed"
    assert len(world.peeks) == before
    world.now_s += 0.001
    assert ahead.look(world.job) == "idle"
    assert len(world.peeks) == before + 1
    assert ahead.look(world.job) == "idle"
    world.now_s += LOOK_S - 0.001
    ahead.look(world.job)
    assert len(world.peeks) == before + 1
    world.outcome = "fenced"
    world.now_s += 0.001
    assert ahead.look(world.job) == "fenced"


# -- what it finds --------------------------------------------------------------------------------


def test_what_comes_behind_the_window_is_added_once(world: World) -> None:
    world.units = 3
    ahead = Lookahead()
    for _ in range(2):
        ahead.look(world.job)
    assert ahead.window.end == 17
    assert _firsts(ahead.choose(world.job, [])) == [11, 13]
    world.passed(ahead, 2)
    assert (ahead.window.begin, ahead.window.end) == (15, 17)
    world.units = 2
    world.now_s += LOOK_S
    ahead.look(world.job)
    assert (ahead.window.begin, ahead.window.end, ahead.window.open) == (15, 19, 2)
    assert world.loaded == [[11, 13], [11, 13, 15], [15, 17]], (
        "keys are looked up with those before"
    )
    assert world.asked == ["deliveries"], "once"


def test_before_a_hole_what_is_whole_is_found(world: World) -> None:
    world.units = 20
    world.holes = [HoleError("lost", whole=2)]
    ahead = Lookahead()
    assert ahead.look(world.job) == "claimed"
    assert (world.peeks, ahead.window.events) == ([4, 2], 2)
    world.holes = [HoleError("lost")]
    with pytest.raises(HoleError):
        ahead.look(world.job)


def test_what_was_finished_before_is_not_called_again(world: World) -> None:
    world.units = 20
    world.deliveries = [(13, 0, True), (15, 2, True)]
    ahead = Lookahead()
    for _ in range(2):
        ahead.look(world.job)
    assert ahead.suspects == {}
    assert _firsts(ahead.window.unfinished()) == [11, 17]
    assert ahead._finished == set(), "each is told once, and kept no longer"


def test_a_filter_passes_what_it_does_not_keep(world: World) -> None:
    world.units, world.kept = 20, [14, 21, 22, 27]
    ahead = Lookahead()
    ahead.look(world.job)
    assert ahead.window.end == 15
    assert _firsts(ahead.window.unfinished()) == [13]
    ahead.look(world.job)
    assert world.loaded == [[13], [13]]
    assert ahead.window.end == 19
    ahead.look(world.job)
    assert (ahead.window.end, _firsts(ahead.window.unfinished())) == (23, [13, 21])
    assert ahead.window.span(19) == PassedSpan(19, [19, 20]), "of one gap what is new"
    assert ahead.window.prefix() == (1, 13)


# -- which may be called --------------------------------------------------------------------------


def test_as_many_as_there_is_room_for(world: World) -> None:
    world.units = 20
    ahead = Lookahead()
    for _ in range(2):
        ahead.look(world.job)
    assert ahead.choose(world.job, [1, 2]) == []
    assert _firsts(ahead.choose(world.job, [1])) == [11]
    assert _firsts(ahead.choose(world.job, [])) == [13, 15]


def test_who_may_have_killed_a_worker_is_alone(world: World) -> None:
    world.units = 20
    world.deliveries = [(13, 1, False), (17, 0, False)]
    ahead = Lookahead()
    for _ in range(2):
        ahead.look(world.job)
    assert ahead.suspects == {13: 1}
    assert _firsts(ahead.choose(world.job, [])) == [11]
    assert ahead.choose(world.job, [11]) == [], "until those before have ended"
    assert _firsts(ahead.choose(world.job, [])) == [13]
    assert ahead.choose(world.job, [13]) == []
    del ahead.suspects[13]
    assert _firsts(ahead.choose(world.job, [])) == [15, 17]
