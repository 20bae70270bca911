"""A supervisor's exporter: forked, told that the loop turns, started again, and ended with it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from socket import socket
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from gapless.features.metrics import keep as module
from gapless.features.metrics import process
from gapless.features.metrics.keep import ROWS_MAX, SILENCE_S_MAX, STEADY_AFTER_S, ExporterKeeper
from gapless.settings import Settings
from gapless.worker import retries
from gapless.worker.child import Child

ME = UUID(int=1)
OTHERS = [901, 902]


@dataclass
class Process:
    """An exporter that runs until `code` says how it ended."""

    code: int | None = None
    age_s: float = 0.0
    killed: bool = False
    joined: bool = False

    @property
    def process(self) -> Any:
        return self

    def join(self) -> None:
        assert self.killed, "else it is waited for without an end"
        self.joined = True

    def kill(self) -> None:
        self.killed = True

    def reap(self) -> int | None:
        return self.code

    def descriptors(self) -> list[int]:
        return [903]


class Home:
    """The keeper, what it forked, and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, listening: socket | None) -> None:
        self.now_s = 1000.0
        self.forked: list[Process] = []
        self.ran: list[Any] = []
        self.refuses = False
        for each in (module, retries):
            monkeypatch.setattr(each, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(Child, "fork", self._fork)
        monkeypatch.setattr(process, "run_exporter", lambda *said: self.ran.append(said))
        self.settings = Settings()
        plan: Any = SimpleNamespace(
            dsn="here", settings=self.settings, handlers={("g", "t"): None, ("h", "u"): None}
        )
        self.keeper = ExporterKeeper(plan, listening, lambda: OTHERS)
        self.board = self.keeper._board

    def _fork(self, name: str, slot: int, run: Callable[[Any], None]) -> Process:
        if self.refuses:
            raise OSError("too many")
        assert (name, slot) == ("exporter", 0)
        run("pipe")
        self.forked.append(Process())
        return self.forked[-1]

    def turn(self) -> int:
        """Take a turn; return how many were forked so far."""
        self.keeper.turn(ME, drains=False)
        return len(self.forked)


@pytest.fixture
def listening() -> Iterator[socket]:
    with socket() as made:
        yield made


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, listening: socket) -> Home:
    return Home(monkeypatch, listening)


def test_it_is_forked_once_with_all_that_it_needs(home: Home, listening: socket) -> None:
    assert home.keeper.filenos() == [listening.fileno()]
    assert home.keeper.meters._rows_max == ROWS_MAX
    assert [home.turn() for _ in range(3)] == [1, 1, 1]
    assert home.keeper.filenos() == [listening.fileno(), 903]
    ((spec, pipe, board, shared),) = home.ran
    assert (pipe, board, shared) == ("pipe", home.board, (home.keeper.meters, home.keeper._pulse))
    settings = home.settings
    assert (spec.dsn, spec.slot, spec.listening) == ("here", 0, listening)
    assert spec.close_fds == tuple(OTHERS)
    assert spec.groups == {("t", "g"), ("u", "h")}
    assert spec.silence_s_max == settings.member_ttl_ms / 1000 + settings.connect_timeout_s
    assert spec.settings is settings
    assert home.board.silence_ms(0) > 0, "its silence is counted from its start"


def test_without_a_socket_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(monkeypatch, None)
    assert home.turn() == 0
    assert home.keeper.filenos() == []
    assert home.keeper.meters._rows_max == 0, "nobody asks, so nobody counts"
    home.keeper.end()


def test_at_each_turn_it_is_told_of_which_member(home: Home) -> None:
    pulse = home.keeper._pulse
    assert (home.turn(), pulse.member_id, pulse.is_draining) == (1, ME, False)
    assert pulse.silence_s < 3600, "not as long as the machine is up"
    home.keeper.turn(ME, drains=True)
    assert (pulse.member_id, pulse.is_draining) == (ME, True)
    home.keeper.turn(None, drains=True)
    assert pulse.member_id is None


def test_who_ends_again_and_again_waits_ever_longer(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    home.turn()
    home.forked[-1].code = 1
    assert home.turn() == 2, "the first time at once"
    home.forked[-1].code = -9
    assert home.turn() == 2
    assert home.keeper.filenos() == [home.keeper.filenos()[0]], "there is none"
    home.now_s += 0.19
    assert home.turn() == 2
    home.now_s += 0.01
    assert home.turn() == 3
    assert caplog.messages == [
        "exporter ended: exit code 1", "exporter ended: signal SIGKILL (out of memory?)",
    ]  # fmt: skip


@pytest.mark.parametrize(("age_s", "forked"), [(STEADY_AFTER_S, 2), (STEADY_AFTER_S + 0.1, 3)])
def test_who_had_lived_long_is_started_again_at_once(home: Home, age_s: float, forked: int) -> None:
    home.turn()
    for _ in range(2):
        home.forked[-1].code, home.forked[-1].age_s = 1, age_s
        home.turn()
    assert len(home.forked) == forked


def test_what_cannot_be_forked_is_tried_again(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    home.refuses = True
    home.turn()
    home.turn()
    assert len(caplog.messages) == 2, "at once, and then not yet"
    assert home.turn() == 0
    assert len(caplog.messages) == 2
    home.now_s, home.refuses = home.now_s + 0.2, False
    assert home.turn() == 1


@pytest.mark.parametrize(("more_ms", "is_killed"), [(0, False), (1, True)])
def test_one_that_says_nothing_is_killed_once(
    home: Home, monkeypatch: pytest.MonkeyPatch, more_ms: int, is_killed: bool
) -> None:
    home.turn()
    [child] = home.forked
    monkeypatch.setattr(home.board, "silence_ms", lambda _slot: SILENCE_S_MAX * 1000 + more_ms)
    assert home.turn() == 1
    assert child.killed == is_killed
    monkeypatch.setattr(child, "kill", lambda: pytest.fail("once"))
    child.killed = True
    assert home.turn() == 1


def test_it_ends_with_its_supervisor(home: Home) -> None:
    home.turn()
    for _ in range(2):
        home.keeper.end()
    assert (home.forked[0].killed, home.forked[0].joined) == (True, True)
    assert len(home.keeper.filenos()) == 1
