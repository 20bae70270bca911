"""What the sequencer does turn by turn: when it sequences, rests, dozes, sleeps, and makes chunks.

With a clock that stands still and a database that answers as a test wants.
"""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from gapless.settings import Settings
from gapless.worker import sequencer as module
from gapless.worker.board import Board
from gapless.worker.sequencer import _Candidate, _Turn

PIPE, CONN = 77, 78
SLOT = 1


class World:
    """The clock, the database and what was done there; `found` is what the next runs find."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.story: list[object] = []
        self.found: list[int | Exception] = []
        self.run_s = 0.0  # of one run
        self.may_sleep = False
        self.notified: list[str] = []  # asleep: what has arrived
        self.arrives: list[str] = []  # what ends the next wait
        self.chunks: list[int | Exception] = []
        self.is_lost = False
        self.triggers: list[str] = []
        self.strays = 0
        self.is_later_due = False
        self.holds = False
        self.later: list[int] = []
        self.due_s = 2000.0
        self.board = Board(2)
        self.board.clear(SLOT)
        for name in (
            "sequence", "try_sleep", "wake_up", "heard", "readable", "create_chunks",
            "count_unrouted", "chunk_triggers", "heal_letters",
        ):  # fmt: skip
            monkeypatch.setattr(module, name, getattr(self, name))
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "has_to_poll", lambda _conn: False)
        monkeypatch.setattr(module, "promoter", lambda: self)

    def turn(self, pause_s: float = 0.0, wait_period_s: float = 0.4) -> _Turn:
        settings = Settings(
            sequencer_pause_ms=round(1000 * pause_s), wait_period_ms=round(1000 * wait_period_s)
        )
        spec: Any = SimpleNamespace(slot=SLOT, settings=settings)
        pipe: Any = SimpleNamespace(fileno=lambda: PIPE)
        conn: Any = SimpleNamespace(closed=self.is_lost, fileno=lambda: CONN)
        return _Turn(conn, spec, pipe, self.board)

    def told(self) -> list[object]:
        told, self.story = self.story, []
        return told

    def _work(self) -> bool:
        return self.board.work_ms(SLOT) > 0

    def sequence(self, _conn: object, *, patience_s: float = 0.0) -> int:
        assert self._work(), "a run that hangs is killed: the board says that it works"
        self.story.append("patient" if patience_s else "sequence")
        self.now_s += self.run_s
        found = self.found.pop(0) if self.found else 0
        if isinstance(found, Exception):
            raise found
        return found

    def try_sleep(self, _conn: object) -> bool:
        self.story.append("try_sleep")
        return self.may_sleep

    def wake_up(self, _conn: object) -> None:
        self.story.append("wake_up")

    def heard(self, _conn: object) -> list[str]:
        notified, self.notified = self.notified, []
        return notified

    def readable(self, timeout_s: float, *fds: int) -> None:
        assert not self._work(), "at rest"
        if fds == (CONN, PIPE):
            self.story.append(("wait", round(timeout_s, 6)))
            self.notified, self.arrives = self.arrives, []
            self.now_s += 0.0 if self.notified else timeout_s
        else:
            assert fds == (PIPE,)
            self.story.append(round(timeout_s, 6))

    def create_chunks(self, _conn: object) -> int:
        assert self._work()
        self.story.append("chunks")
        made = self.chunks.pop(0) if self.chunks else 0
        if isinstance(made, Exception):
            raise made
        return made

    def chunk_triggers(self, _conn: object) -> list[str]:
        return self.triggers

    def heal_letters(self, _conn: object) -> None:
        """Nothing was written by a clock that was ahead."""

    def count_unrouted(self, _conn: object) -> int:
        return self.strays

    # -- events for later -------------------------------------------------------------------------

    def is_due(self) -> bool:
        return self.is_later_due

    def promote(self, _conn: object) -> int:
        self.story.append("promote")
        return self.later.pop(0) if self.later else 0

    def rest_s(self, seconds: float) -> float:
        return seconds

    def wait_s(self, seconds: float) -> float:
        return min(seconds, max(self.due_s - self.now_s, 0.0))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("events", "run_s", "rest_s"),
    [
        (1, 0.001, 0.001), (1, 0.1, 0.004), (6, 0.003, 0.003), (7, 0.001, 0.003), (7, 0.1, 0.004),
        (50, 0.1, 0.004), (51, 0.001, 0.008), (51, 0.1, 0.02), (10_000, 0.002, 0.016),
    ],
)  # fmt: skip
def test_the_more_events_it_found_and_the_longer_that_took_the_longer_it_rests(
    world: World, events: int, run_s: float, rest_s: float
) -> None:
    world.found, world.run_s = [events], run_s
    world.turn().take()
    assert world.told() == ["chunks", "sequence", rest_s]
    assert world.board.completed(SLOT) == 1


def test_beside_a_publisher_that_believes_it_awake_it_dozes_ever_longer(world: World) -> None:
    turn = world.turn()
    turn.take()
    assert world.told() == ["chunks", "sequence", "try_sleep", 0.0005]
    for doze_s in (0.001, 0.002, 0.004, 0.005, 0.005):
        turn.take()
        assert world.told() == ["sequence", "try_sleep", doze_s]
    assert world.board.completed(SLOT) == 0
    world.found = [3]
    turn.take()
    assert world.told()[0] == "sequence"
    turn.take()
    assert world.told()[-1] == 0.0005, "from anew"
    turn.take()
    world.may_sleep = True
    turn.take()
    world.may_sleep, world.found = False, [1]
    turn.take()
    turn.take()
    assert world.told()[-3:] == ["sequence", "try_sleep", 0.0005], "after a sleep as well"


LOOK = ["patient", "promote"]


def asleep(world: World, **options: float) -> _Turn:
    """Return one that fell asleep and has looked once more, in vain."""
    world.may_sleep = True
    turn = world.turn(**options)
    turn.take()
    turn.take()
    assert world.told() == ["chunks", "sequence", "try_sleep", ("wait", 0.0), *LOOK]
    return turn


def test_what_came_just_before_it_sleeps_is_not_waited_for(world: World) -> None:
    world.may_sleep, world.run_s, world.found = True, 0.002, [0, 5]
    turn = world.turn()
    turn.take()
    turn.take()
    assert world.told()[2:] == ["try_sleep", ("wait", 0.0), *LOOK, "wake_up", 0.002]
    assert world.board.completed(SLOT) == 1


def test_told_of_events_it_runs_once_for_each_and_stays_asleep(world: World) -> None:
    world.run_s = 0.001
    turn = asleep(world)
    for _ in range(20):
        world.now_s += 0.01
        world.found, world.notified = [1], [""]
        turn.take()
        assert world.told() == ["patient", 0.0], "no look for what is due, no rest"
    world.arrives, world.found = [""], [2]
    turn.take()
    assert world.told()[1:] == ["patient", 0.0], "woken from its wait"
    assert world.board.completed(SLOT) == 21


@pytest.mark.parametrize(("share", "wakes"), [(0.2, False), (0.32, False), (0.35, True), (1, True)])
@pytest.mark.parametrize("run_s", [0.0005, 0.01, 0.1])
def test_it_wakes_up_where_runs_take_a_third_of_the_time_between_events(
    world: World, run_s: float, share: float, wakes: bool
) -> None:
    """Where commits are slow, so are runs: the measure is the machine's own."""
    turn = asleep(world, wait_period_s=1.0)
    world.run_s = run_s
    for _ in range(8):
        world.now_s += run_s / share - run_s
        world.found, world.notified = [1], [""]
        turn.take()
    assert ("wake_up" in world.told()) == wakes


def test_publishers_who_wait_for_each_other_to_notify_wake_it_at_once(world: World) -> None:
    turn = asleep(world, wait_period_s=1.0)
    world.run_s = 0.05
    world.now_s += 1
    for events, wakes in ((1, False), (4, True)):
        world.found, world.notified = [events], [""]
        turn.take()
        assert ("wake_up" in world.told()) == wakes


def test_found_by_the_clock_alone_it_wakes_up_for_not_all_publishers_notify(world: World) -> None:
    turn = asleep(world)
    world.found = [1]
    turn.take()
    assert world.told() == [("wait", 0.4), *LOOK, "wake_up", 0.0]


def test_told_all_the_time_it_looks_at_its_time_for_what_is_due_and_nobody_told_of(
    world: World,
) -> None:
    turn = asleep(world, wait_period_s=0.4)
    looks = []
    for _ in range(100):
        world.now_s += 0.01
        world.found, world.notified = [1], [""]
        turn.take()
        if "promote" in world.told():
            looks.append(round(world.now_s, 6))
    (apart_s,) = [after - before for before, after in pairwise(looks)]
    assert 0.4 <= round(apart_s, 6) <= 0.41


def test_asleep_it_looks_for_what_is_due_when_told_and_when_it_is(world: World) -> None:
    turn = asleep(world)
    world.notified = [module.LATER]
    turn.take()
    assert world.told()[:2] == LOOK
    world.due_s, world.later, world.found = world.now_s + 0.1, [3], [0, 3]
    turn.take()
    assert world.told() == [("wait", 0.1), *LOOK, "sequence", 0.0], "and stays asleep"


def test_chunks_are_made_now_and_then_and_after_many_events(world: World) -> None:
    turn = world.turn()

    def makes_chunks() -> bool:
        turn.take()
        return "chunks" in world.told()

    assert makes_chunks()
    world.now_s += module.CHUNKS_EVERY_S - 0.01
    assert not makes_chunks()
    world.now_s += 0.01
    assert makes_chunks()
    world.found = [module.CHUNKS_EVERY_EVENTS - 1, 1]
    assert [makes_chunks() for _ in range(4)] == [False, False, True, False]


def test_who_reads_for_long_is_told_of_and_asked_ever_more_rarely(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    turn = world.turn()
    busy = psycopg.errors.LockNotAvailable("somebody reads")
    world.chunks = [busy] * 12 + [0, busy]
    tries: list[float] = []

    def pass_s(seconds: float) -> None:
        until_s = world.now_s + seconds
        while world.now_s < until_s:
            turn.take()
            if "chunks" in world.told():
                tries.append(world.now_s)
            world.now_s += 0.5

    pass_s(75.5)
    waits = [after - before for before, after in pairwise(tries)]
    assert waits == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10], "at most so often do claims wait"
    (told,) = caplog.records
    assert told.getMessage().endswith(
        "in 10 tries: gapless doctor says who is in the way: somebody reads"
    )
    tries.clear()
    pass_s(module.CHUNKS_EVERY_S + 1)
    assert len(tries) == 2, "one that was made begins the count anew"
    assert len(caplog.records) == 1


def test_chunks_that_cannot_be_made_keep_no_event_from_its_offset(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The first refusal is told at once, with the event triggers that may be its cause."""
    turn = world.turn()
    world.triggers = ["event trigger t"]
    world.chunks = [psycopg.errors.RaiseException("no DDL")] * 2
    turn.take()
    assert world.told()[:2] == ["chunks", "sequence"]
    assert world.board.work_ms(SLOT) == 0
    world.now_s += 1
    turn.take()
    (told,) = caplog.records
    assert told.getMessage().endswith("who is in the way: no DDL; event trigger t")


def test_a_session_that_is_lost_while_chunks_are_made_ends_it(world: World) -> None:
    world.chunks = [psycopg.OperationalError("gone")]
    world.is_lost = True
    with pytest.raises(psycopg.OperationalError):
        world.turn().take()
    assert world.board.work_ms(SLOT) == 0


def test_events_without_a_topic_are_told_of_when_they_are_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    turn = world.turn()
    told = []
    for strays in (0, 1, 1, 0, 1, 2):
        world.strays = strays
        caplog.clear()
        turn.take()
        told.append(len([each for each in caplog.records if "nobody made" in each.getMessage()]))
        world.now_s += module.CHUNKS_EVERY_S
    assert told == [0, 1, 0, 0, 1, 1]


class Standing:
    """The active sequencer, as a candidate sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.run: int | None = None
        self.looks = self.sequenced = 0
        self.broken: list[int] = []
        self.may_break = self.does_break = True
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "stands_still", self._stands_still)
        monkeypatch.setattr(module, "break_role", self._break_role)
        monkeypatch.setattr(module, "missing_grant", lambda _conn: "a grant is missing")
        monkeypatch.setattr(module, "sequence", self._sequence)

    def _stands_still(self, _conn: object) -> int | None:
        self.looks += 1
        return self.run

    def _break_role(self, _conn: object, run: int) -> bool:
        if not self.may_break:
            raise psycopg.errors.InsufficientPrivilege("no")
        self.broken.append(run)
        return self.does_break

    def _sequence(self, _conn: object) -> int:
        self.sequenced += 1
        return 0

    def watch(self, candidate: _Candidate, seconds: float) -> None:
        """Let it look, every 0.25 s as its loop does."""
        for _ in range(int(seconds * 4)):
            candidate.look()
            self.now_s += 0.25


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    return Standing(monkeypatch)


@pytest.fixture
def candidate() -> _Candidate:
    conn: Any = "conn"
    return _Candidate(conn)


def test_one_that_does_nothing_is_ended_and_then_given_time(
    standing: Standing, candidate: _Candidate, caplog: pytest.LogCaptureFixture
) -> None:
    standing.run = 7
    standing.watch(candidate, 2.0)
    assert standing.looks == 4, "every half second"
    assert standing.broken == []
    standing.watch(candidate, 0.25)
    assert standing.broken == [7]
    assert len(caplog.messages) == 1
    standing.watch(candidate, 2.0)
    assert standing.broken == [7], "from anew"
    standing.watch(candidate, 0.75)
    assert standing.broken == [7, 7]


def test_one_that_may_not_be_ended_is_stood_in_for(
    standing: Standing, candidate: _Candidate, caplog: pytest.LogCaptureFixture
) -> None:
    standing.run, standing.may_break = 7, False
    standing.watch(candidate, 3.0)
    assert standing.sequenced == 1
    assert caplog.messages == ["sequencer: the active one does nothing: a grant is missing"]
