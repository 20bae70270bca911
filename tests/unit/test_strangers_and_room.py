"""How many sessions a fleet takes, in words, and what the log is told of strangers in the way."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.errors import ConnectError
from gapless.lease import room, squatters
from gapless.lease.room import Demand, Own, own_sessions, require_room
from gapless.lease.squatters import Squatter, end_squatters, name_prepared


class Database:
    """Answers with these rows."""

    def __init__(self, *rows: Any) -> None:
        self.rows = list(rows)
        self.params: dict[str, Any] = {}

    def cursor(self, **_: object) -> Any:
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, _query: object, params: Any = None) -> Any:
        self.params = params
        return self

    def fetchall(self) -> list[Any]:
        return self.rows

    def fetchone(self) -> Any:
        return self.rows[0] if self.rows else None


@pytest.fixture(autouse=True)
def _queries(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (room, squatters):
        monkeypatch.setattr(module, "query", lambda _noun, name: name)


def _require(demand: Demand, own: Own | None = None) -> Database:
    conn: Any = Database(demand)
    more = {} if own is None else {"own": own}
    require_room(
        conn, [("g", "t"), ("h", "u")], capacity=3, partitions_per_worker=2, total_partitions=4, **more
    )  # fmt: skip
    return conn  # type: ignore[no-any-return]


def _demand(**said: int) -> Demand:
    every = {"supervisors": 2, "partitions": 8, "workers": 4, "max_connections": 20,
             "reserved": 3, "own": 4}  # fmt: skip
    return Demand(**every | said)


def test_there_is_room_up_to_the_last_session() -> None:
    assert _require(_demand()).params == {
        "groups": ["g", "h"], "topics": ["t", "u"], "capacity": 3, "partitions_per_worker": 2,
        "total_partitions": 4, "sessions": 2,
    }  # fmt: skip
    assert _require(_demand(workers=13), Own(3)).params["sessions"] == 3
    with pytest.raises(ConnectError):
        _require(_demand(workers=14))
    _require(_demand(workers=10), Own(queue_workers=3))
    with pytest.raises(ConnectError):
        _require(_demand(workers=10), Own(queue_workers=4))


def test_what_is_measured_takes_a_session_more() -> None:
    assert (own_sessions(is_measured=False), own_sessions(is_measured=True)) == (2, 3)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"workers": 14},
            (
                "8 partitions take 14 workers with a session each, and 2 supervisors take 4, for"
                " control, sequencer and metrics: 14 + 4 = 18 sessions, but the server admits 17"
                " (max_connections 20 less 3 reserved)"
            ),
        ),
        (
            {"partitions": 1, "workers": 1, "supervisors": 1, "own": 2, "max_connections": 5},
            (
                "1 partition takes 1 worker with a session each, and 1 supervisor takes 2, for"
                " control, sequencer and metrics: 1 + 2 = 3 sessions, but the server admits 2"
                " (max_connections 5 less 3 reserved)"
            ),
        ),
    ],
)
def test_the_sum_is_told(said: dict[str, int], words: str) -> None:
    with pytest.raises(ConnectError) as raised:
        _require(_demand(**said))
    assert str(raised.value).startswith(words)


def test_a_missing_grant_is_named() -> None:
    conn: Any = Database()
    assert room.missing_grant(conn) is None
    conn = Database(("owner", "worker"))
    assert 'grant "worker" to "owner"' in str(room.missing_grant(conn))


def _squatter(pid: int, *, is_ended: bool) -> Squatter:
    return Squatter(pid=pid, role="r", holds="a lock", is_ended=is_ended)


def test_a_stranger_that_was_ended_is_told_of_each_time_and_another_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known: set[int] = set()
    conn: Any = Database(_squatter(1, is_ended=True), _squatter(2, is_ended=False))
    levels = []
    for _ in range(2):
        caplog.clear()
        end_squatters(conn, known)
        assert known == {2}
        levels.append([each.levelname for each in caplog.records])
    assert levels == [["WARNING", "ERROR"], ["WARNING"]]
    conn.rows = []
    end_squatters(conn, known)
    assert known == set()
    conn.rows = [_squatter(2, is_ended=False)]
    caplog.clear()
    end_squatters(conn, known)
    assert len(caplog.messages) == 1, "it is back"


def test_a_prepared_transaction_that_was_left_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known: set[str] = set()
    conn: Any = Database(("a", "a was left"), ("b", "b was left"))
    for _ in range(2):
        name_prepared(conn, known)
    assert caplog.messages == ["a was left", "b was left"]
    conn.rows = [("b", "b was left")]
    name_prepared(conn, known)
    assert known == {"b"}
    conn.rows = [("a", "a was left")]
    name_prepared(conn, known)
    assert caplog.messages[2:] == ["a was left"], "it is back"
    assert known == {"a"}
