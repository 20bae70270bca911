"""A worker of a queue: how it obeys, waits, and slows down.

With a driver, a pipe and a session that only say what a test wants, and a clock that stands still.
"""

import time
from itertools import count
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from gapless.consume.job import Step
from gapless.consume.verdict.policy import DEAD_LETTER
from gapless.errors import BlockedError, HoleError
from gapless.features.queue import worker as module
from gapless.features.queue.worker import _Host, _Serving
from gapless.worker.board import Board
from gapless.worker.failure_backoff import BRAKE_S_MIN, BRAKE_UNITS, GRACE_S, REST_LOOK_S
from gapless.worker.spec import ExitCode

PIPE, BELL, SESSION, SLOT = 70, 71, 72, 1


def _fail(retries: Any) -> float:
    """Count a failure; wait as long for each."""
    retries.failures += 1
    return 0.25


class Desk:
    """The queue, its driver, its pipe, and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.story: list[object] = []
        self.is_told = self.is_closed = self.is_orphan = self.rings = False
        self.notified: set[str] = set()
        self.done: Step | Exception = Step(outcome="idle")
        self.is_sound = True
        self.board = Board(2)
        # As a driver.
        self.conn = SimpleNamespace(fileno=lambda: SESSION)
        self.oldest_s: float | None = None
        self.going_on = False
        self.channels: list[str] = []
        say = self.story.append
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        ticks = count()
        monkeypatch.setattr(time, "monotonic_ns", lambda: int(self.now_s * 1e9) + next(ticks))
        monkeypatch.setattr(module, "is_orphan", lambda _spec: self.is_orphan)
        monkeypatch.setattr(module, "is_sound", lambda _conn: self.is_sound)
        monkeypatch.setattr(module, "readable", self._readable)
        for where in ("gapless.db.hidden", "gapless.features.queue.worker"):
            monkeypatch.setattr(f"{where}.hidden_rows", lambda _conn: None)
        monkeypatch.setattr(module, "listen", lambda _conn, name: say(("listen", name)))
        monkeypatch.setattr(module.Retries, "failed", _fail)
        monkeypatch.setattr(
            module,
            "Notifications",
            lambda _conn: SimpleNamespace(channels=self._notified, has_words=False),
        )
        monkeypatch.setattr(module, "failing_keys", lambda *_: (BRAKE_UNITS, 0.0))
        monkeypatch.setattr(module, "fetch_all", lambda *said: say(said[-1]["error"]))
        terms = SimpleNamespace(policy=DEAD_LETTER, topics=("t",))
        spec: Any = SimpleNamespace(slot=SLOT, group_id="g", terms=terms)
        driver: Any = self
        bell: Any = SimpleNamespace(fileno=lambda: BELL, silence=self._silence)
        pipe: Any = SimpleNamespace(fileno=lambda: PIPE, recv_bytes=self._recv)
        self.serving = _Serving(spec, self.board, driver)
        self.host = _Host(self.serving, pipe, bell)

    def _readable(self, timeout_s: float, *fds: int) -> bool:
        assert timeout_s >= 0, "less waits for ever"
        if timeout_s > 0 or len(fds) > 1:
            self.story.append((round(timeout_s, 6), fds))
        self.now_s += timeout_s
        return self.is_told or self.is_closed

    def _recv(self) -> bytes:
        self.story.append("heard")
        if self.is_closed:
            raise EOFError
        return b"drain"

    def _notified(self) -> set[str]:
        notified, self.notified = self.notified, set()
        return notified

    def _silence(self) -> bool:
        rang, self.rings = self.rings, False
        return rang

    # -- as a driver ------------------------------------------------------------------------------

    def turn(self, *, one: bool) -> Step:
        assert self.board.work_ms(SLOT) > 0
        self.story.append("one" if one else "turn")
        if isinstance(self.done, Exception):
            raise self.done
        return self.done

    def rest(self) -> Step:
        self.story.append("rest")
        assert isinstance(self.done, Step)
        return self.done

    def wait_s(self, _done: Step) -> float:
        return 0.5

    def hear(self, channels: set[str], *, grew_only: bool) -> None:
        assert grew_only
        self.story.append(channels)

    def wake(self) -> None:
        self.story.append("wake")

    # ---------------------------------------------------------------------------------------------

    def step(self, done: Step | Exception | None = None) -> list[object]:
        """Take a turn that comes to this; return what was asked for."""
        if done is not None:
            self.done = done
        self.story.clear()
        assert self.serving.turn() is None
        return self.story[:]

    @property
    def due_in_s(self) -> float:
        return round(self.serving.due_s - self.now_s, 6)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


def _failing(failed: int = 1, **more: int) -> Step:
    return Step(outcome="done", events=failed, units=failed, waiting=failed, **more)


def test_it_takes_turns_and_rests_as_its_driver_says(desk: Desk) -> None:
    assert desk.due_in_s == 0
    assert desk.host.next() is desk.serving
    assert desk.host.over() is None
    assert desk.step() == ["turn"]
    assert (desk.due_in_s, desk.board.completed(SLOT)) == (0.5, 0)
    assert desk.board.silence_ms(SLOT) > 0
    desk.step(Step(outcome="done", events=1, handled=1))
    assert desk.board.completed(SLOT) == 1
    assert not desk.serving.has_trouble


def test_a_call_that_hangs_is_work_though_it_rests(desk: Desk) -> None:
    desk.oldest_s = 0.25
    desk.step()
    assert desk.board._since_ns[SLOT] == 250_000_000
    desk.board.rest(SLOT)
    desk.host.wait(desk.now_s)
    assert desk.board._since_ns[SLOT] == 250_000_000


def test_told_to_end_it_begins_nothing_and_ends_when_nothing_is_in_hand(desk: Desk) -> None:
    desk.is_told = desk.going_on = True
    assert desk.host.over() is None
    assert desk.story == ["heard"]
    assert desk.serving.due_s == 0
    assert desk.step() == ["rest"]
    desk.story.clear()
    assert desk.host.over() is None
    assert desk.story == [], "told once"
    desk.going_on = False
    assert desk.host.over() == ExitCode.DRAINED


def test_the_end_of_its_supervisor_ends_it_too(desk: Desk) -> None:
    assert not desk.host.hurries()
    desk.is_orphan = True
    assert desk.host.over() == ExitCode.ORPHANED
    assert desk.host.hurries()
    desk.is_orphan, desk.is_closed = False, True
    assert desk.host.hurries()
    assert desk.host.over() == ExitCode.DRAINED


def test_nothing_but_failures_slow_it_down(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.step(_failing(BRAKE_UNITS - 1))
    assert desk.due_in_s == 0.5
    assert not desk.serving.has_trouble
    desk.step(_failing(1, asked=1))
    assert not desk.serving.has_trouble, "it was a wish"
    for rest_s in (BRAKE_S_MIN, BRAKE_S_MIN * 2, BRAKE_S_MIN * 4):
        _, why = desk.step(_failing())
        assert str(why).startswith("retrying: a worker of this queue slowed down until ")
        for _ in range(2):
            assert desk.due_in_s == min(rest_s, REST_LOOK_S), "it looks meanwhile"
            assert desk.step() == [], "it rests"
        desk.now_s += rest_s
    assert len(caplog.messages) == 3
    assert desk.serving.has_trouble
    assert desk.step(Step(outcome="done", events=1, handled=1)) == ["one", None]
    assert desk.due_in_s == 0.5
    assert desk.step() == ["turn"]
    desk.now_s += GRACE_S
    desk.step(_failing(BRAKE_UNITS))
    desk.now_s += GRACE_S
    desk.step(_failing())
    desk.going_on = True
    assert desk.step(Step(outcome="idle")) == ["rest"], "what is under way may end"
    desk.board.handle(SLOT - 1)
    assert desk.step(_failing()) == ["one", None], "another worker handles something"


TRANSIENT = psycopg.errors.SerializationFailure("busy")
REVOKED = psycopg.errors.InsufficientPrivilege("no")


@pytest.mark.parametrize("error", [TRANSIENT, REVOKED, BlockedError("g/t", "no")])
def test_what_passes_is_tried_again(
    desk: Desk, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    lines = []
    for _ in range(31):
        desk.step(error)
        lines.append(len(caplog.messages))
        assert desk.due_in_s == 0.25
    assert lines[:4] == [1, 1, 2, 2]
    assert (lines[8], lines[9], lines[28], lines[29], lines[30]) == (2, 3, 3, 4, 4)
    assert desk.serving.has_trouble
    assert desk.board.work_ms(SLOT) == 0
    desk.step(Step(outcome="idle"))
    assert not desk.serving.has_trouble


def test_what_does_not_pass_ends_it(desk: Desk) -> None:
    desk.done = psycopg.errors.UndefinedTable("gone")
    with pytest.raises(psycopg.errors.UndefinedTable):
        desk.serving.turn()
    assert desk.board.work_ms(SLOT) == 0


def _hole() -> HoleError:
    hole = HoleError.__new__(HoleError)
    Exception.__init__(hole, "a hole")
    return hole


def test_at_a_hole_the_other_partitions_are_served(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.now_s += 5
    desk.step(_hole())
    assert desk.due_in_s == 0
    assert caplog.messages == ["queue worker g: stopped: a hole"]


@pytest.mark.parametrize("error", [TRANSIENT, _hole(), BlockedError("g/t", "no")])
def test_with_the_session_it_ends(desk: Desk, error: Exception) -> None:
    desk.done, desk.is_sound = error, False
    with pytest.raises(psycopg.OperationalError):
        desk.serving.turn()


def test_an_error_of_the_connection_is_raised_as_it_is(desk: Desk) -> None:
    desk.done, desk.is_sound = psycopg.OperationalError("gone"), False
    with pytest.raises(psycopg.OperationalError) as raised:
        desk.serving.turn()
    assert raised.value is desk.done


def test_it_listens_to_what_is_new_and_looks_there(desk: Desk) -> None:
    desk.channels = ["a", "b"]
    desk.host.took(desk.serving, None)
    assert desk.story == [("listen", "a"), "wake", ("listen", "b"), "wake"]
    desk.story.clear()
    desk.notified = {"a"}
    desk.host.took(desk.serving, None)
    assert desk.story == [{"a"}], "and hears, while there is work"


def _put_off(desk: Desk) -> None:
    desk.serving.due_s = desk.now_s + 9


def test_notified_it_has_a_turn_unless_that_is_put_off_on_purpose(desk: Desk) -> None:
    _put_off(desk)
    desk.notified = {"a"}
    desk.host.wait(desk.now_s + 1)
    assert (desk.story, desk.due_in_s) == ([{"a"}], 0), "it does not wait any more"
    desk.serving.due_s = desk.now_s - 3
    desk.notified = {"a"}
    desk.host.wait(desk.now_s + 1)
    assert desk.due_in_s == -3
    desk.step(TRANSIENT)
    desk.notified = {"a"}
    desk.host.wait(desk.now_s + 1)
    assert desk.due_in_s == 0.25
    desk.rings = True
    desk.story.clear()
    desk.host.wait(desk.now_s + 1)
    assert (desk.story, desk.due_in_s) == ([], 0), "a call has ended"


@pytest.mark.parametrize(("left_s", "waits_s"), [(0.3, 0.3), (-5, 0), (60, 1.0)])
def test_it_waits_for_what_is_due_an_order_a_call_or_a_notification(
    desk: Desk, left_s: float, waits_s: float
) -> None:
    _put_off(desk)
    desk.host.wait(desk.now_s + left_s)
    assert desk.story == [(waits_s, (SESSION, PIPE, BELL))]
    assert desk.due_in_s == pytest.approx(9 - waits_s), "nobody woke it"


def test_what_came_while_it_waited_is_heard(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def readable(*_: object) -> None:
        desk.notified = {"a"}

    monkeypatch.setattr(module, "readable", readable)
    desk.host.wait(desk.now_s + 1)
    assert desk.story == [{"a"}]


def test_it_naps_alive_until_it_is_told_something(desk: Desk) -> None:
    desk.host.nap(2.5)
    assert desk.story == [(1.0, (PIPE,)), (1.0, (PIPE,)), (0.5, (PIPE,))]
    assert desk.board.silence_ms(SLOT) > 0
    for why in ("is_orphan", "is_told"):
        desk.story.clear()
        setattr(desk, why, True)
        desk.host.nap(2.5)
        assert desk.story == [(1.0, (PIPE,))]
        setattr(desk, why, False)


def test_what_is_in_hand_has_a_number_that_the_next_loss_will_not_have(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in five counts: the number must not be a multiple of anything."""
    monkeypatch.setattr(module, "time_ns", lambda: 123_456_789)
    assert list(desk.host.in_hand()) == [(desk, 123_456)]
