"""A worker's session: its guards, whether a turn can begin on it, and what its loss costs."""

from collections.abc import Callable, Iterator
from contextlib import closing
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect, connect_shared
from gapless.worker.forgive import Loss, forgive
from gapless.worker.session_loop import GUARD_MORE_MS, Opening, is_sound

pytestmark = pytest.mark.writes_nothing


def test_a_turn_can_begin_on_a_session_in_no_transaction(dsn: str) -> None:
    with closing(connect(dsn, role="test")) as conn:
        assert is_sound(conn)
        conn.execute("begin")
        assert not is_sound(conn)
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("select 1 / 0")
        assert not is_sound(conn)
        conn.execute("rollback")
        assert is_sound(conn)
    assert not is_sound(conn)


@pytest.mark.parametrize(("timeout_ms", "limit_ms"), [(None, 4000), (0, 0), (500, 500)])
def test_a_session_is_guarded(dsn: str, timeout_ms: int | None, limit_ms: int) -> None:
    limited = make_conninfo(dsn, options="-c statement_timeout=4000 -c jit=on")
    opening = Opening(
        connect=lambda: connect(limited, role="test"),
        max_processing_ms=1000,
        patience_s=0,
        statement_timeout_ms=timeout_ms,
    )
    with closing(opening.open()) as conn:
        found = conn.execute(
            "select name, setting from pg_settings"
            " where name in ('idle_in_transaction_session_timeout', 'statement_timeout', 'jit')"
        ).fetchall()
    assert dict(found) == {
        "idle_in_transaction_session_timeout": str(1000 + GUARD_MORE_MS),
        "statement_timeout": str(limit_ms),
        "jit": "on",  # as of the server: handlers' statements are not ours
    }


@pytest.mark.parametrize("opened", [connect, connect_shared])
def test_a_session_of_ours_compiles_nothing(
    dsn: str, opened: Callable[..., Connection[Any]]
) -> None:
    """Of a look-up of which the planner thinks too much, JIT takes seconds."""
    with opened(dsn, role="test") as conn:
        assert conn.execute("show jit").fetchone() == ("off",)


class Lost:
    """What was in hand when a session was lost, and the sessions that come after it."""

    def __init__(self, dsn: str) -> None:
        self.has_attempt = True
        self.refusals = 0  # so often nobody listens
        self.forgiven = self.connects = 0
        self.sessions: list[Connection] = []
        self._dsn = dsn

    def forgive(self, conn: Connection) -> None:
        conn.execute("select")
        self.forgiven += 1

    def connect(self) -> Connection:
        self.connects += 1
        if self.connects <= self.refusals:
            nobody = make_conninfo(self._dsn, host="127.0.0.1", port="1")
            return connect(nobody, role="test") if self.connects % 2 else psycopg.connect(nobody)
        self.sessions.append(connect(self._dsn, role="test"))
        return self.sessions[-1]

    def lose(self, error: psycopg.Error, draw: int = 1, **said: Any) -> tuple[int, int]:
        """Lose a session; return how often that was forgiven, and how often a new one was tried."""
        loss = Loss(error=error, began_s=monotonic() - said.pop("age_s", 0.0), draw=draw)
        every: dict[str, Any] = {"patience_s": 60, "sleep": lambda _s: None} | said
        forgive(self, loss, self.connect, **every)
        return self.forgiven, self.connects


@pytest.fixture
def lost(dsn: str) -> Iterator[Lost]:
    made = Lost(dsn)
    yield made
    assert all(each.closed for each in made.sessions)


GONE = psycopg.OperationalError("gone")
SHUT_DOWN = psycopg.errors.AdminShutdown("ended")
YEARS_S = 1e9  # no server has run for so long


def test_who_was_not_to_blame_is_forgiven(lost: Lost) -> None:
    lost.refusals = 3
    assert lost.lose(SHUT_DOWN) == (1, 4)


@pytest.mark.parametrize(("age_s", "forgiven"), [(0.0, 0), (YEARS_S, 1)])
def test_a_loss_for_no_known_reason_is_if_the_server_was_restarted_since(
    lost: Lost, age_s: float, forgiven: int
) -> None:
    assert lost.lose(GONE, age_s=age_s) == (forgiven, 1)


@pytest.mark.parametrize(("draw", "forgiven"), [(4, 1), (5, 0), (6, 1), (10, 0)])
def test_one_loss_of_five_counts_all_the_same(lost: Lost, draw: int, forgiven: int) -> None:
    assert lost.lose(SHUT_DOWN, draw)[0] == forgiven


def test_without_an_attempt_there_is_nothing_to_forgive(lost: Lost) -> None:
    lost.has_attempt = False
    assert lost.lose(SHUT_DOWN) == (0, 0)


@pytest.mark.parametrize("said", [{"patience_s": -1}, {"stop": lambda: True}])
def test_it_is_tried_for_so_long_or_until_told_to_stop(lost: Lost, said: dict[str, Any]) -> None:
    lost.refusals = 9
    assert lost.lose(SHUT_DOWN, **said) == (0, 1)


def test_it_is_tried_ever_less_often(lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda _least, most: most)  # no jitter
    waits: list[float] = []
    lost.refusals = 7
    assert lost.lose(SHUT_DOWN, sleep=waits.append) == (1, 8)
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0])
