"""When an exporter looks at the database again, and what becomes of its session."""

from typing import Any

import psycopg
import pytest

from gapless.errors import ConnectError
from gapless.features.metrics import looks as module
from gapless.features.metrics.looks import LOOK_EVERY_S, RETRY_S, Looks


class Session:
    """A session that is open until it is closed."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Desk:
    """Looks, what they come to, and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.found: Any = "a look"
        self.looks = 0
        self.sessions: list[Session] = []
        self.refuses = False
        self.standstills: set[int] = set()
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "take_look", self._take)
        self.it = Looks(self._connect)  # type: ignore[arg-type]

    def _connect(self) -> Session:
        if self.refuses:
            raise ConnectError("nobody\n answers")
        self.sessions.append(Session())
        return self.sessions[-1]

    def _take(self, conn: Session, standstill: object) -> Any:
        assert conn is self.sessions[-1]
        assert not conn.closed
        self.standstills.add(id(standstill))
        self.looks += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def after(self, seconds: float) -> int:
        """Ask after so long; return how many looks were taken so far."""
        self.now_s += seconds
        self.it.newest()
        return self.looks


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


class Look:
    """What is no text is a look."""


def test_it_looks_when_one_asks_and_not_again_for_a_while(desk: Desk) -> None:
    desk.found = Look()
    assert desk.it.newest() is desk.found
    assert [desk.after(0), desk.after(LOOK_EVERY_S - 0.01), desk.after(0.01)] == [1, 1, 2]
    assert desk.it.newest() is desk.found
    assert (len(desk.sessions), len(desk.standstills)) == (1, 1), "one session, one history"


def test_on_a_machine_that_has_just_started_it_looks_at_once(desk: Desk) -> None:
    desk.now_s = 0.0
    assert desk.after(0) == 1


@pytest.mark.parametrize(
    ("error", "why", "sessions"),
    [
        (psycopg.OperationalError("gone\n away"), "gone away", 2),
        (psycopg.OperationalError(""), "OperationalError", 2),
        (psycopg.errors.QueryCanceled("too long"), "too long", 1),
    ],
)
def test_who_cannot_look_says_why_and_tries_again_soon(
    desk: Desk, error: Exception, why: str, sessions: int
) -> None:
    desk.found = error
    assert desk.it.newest() == why
    assert desk.sessions[0].closed == (sessions == 2)
    assert [desk.after(RETRY_S - 0.01), desk.after(0.01)] == [1, 2]
    assert len(desk.sessions) == sessions


def test_a_server_that_is_away_is_an_answer_too(desk: Desk) -> None:
    desk.refuses = True
    assert desk.it.newest() == "nobody answers"
    desk.refuses = False
    desk.found = Look()
    desk.now_s += RETRY_S
    assert desk.it.newest() is desk.found


def test_closed_it_connects_again_for_who_asks(desk: Desk) -> None:
    desk.it.close()
    desk.it.newest()
    desk.it.close()
    assert desk.sessions[0].closed
    assert desk.after(LOOK_EVERY_S) == 2
    assert len(desk.sessions) == 2
