"""The workers of queues: how many there are, and what the database is told of those that died."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.settings import Settings
from gapless.telemetry.meter import Meters
from gapless.worker import pool as module
from gapless.worker.board import Board
from gapless.worker.pool import DEATH_AGAIN_S, DEATH_PATIENCE_S, Death, Pools, ServedQueue
from gapless.worker.spec import ExitCode

_ANY: Any = None


class Forks:
    """Forks as many as it has room for; ends those in `codes`."""

    def __init__(self) -> None:
        self.room = 99
        self.forked: list[Any] = []
        self.codes: dict[int, int] = {}
        self.failures: list[object] = []
        self.runs: list[Callable[..., None]] = []

    def fork(self, _who: object, name: str, run: Callable[..., None]) -> Any:
        if self.room <= len(self.forked):
            return None
        slot = len(self.forked)
        child = SimpleNamespace(
            slot=slot, name=name, draining=False, explain=lambda code: f"exit code {code}"
        )
        self.forked.append(child)
        self.runs.append(run)
        return child

    def reap(self, child: Any, work_ms_max: float) -> int | None:
        assert work_ms_max == Settings().max_processing_ms
        return self.codes.get(child.slot)

    def failed(self, who: object, _child: object) -> None:
        self.failures.append(who)


@pytest.fixture
def forks() -> Forks:
    return Forks()


@pytest.fixture
def board() -> Board:
    return Board(9)


@pytest.fixture
def pools(forks: Forks, board: Board) -> Pools:
    any_forks: Any = forks
    return Pools(any_forks, (board, Meters(9)), "", Settings(), 1)


def _queue(group: str, workers: int) -> tuple[str, Any, Any]:
    return group, _ANY, SimpleNamespace(topics=("a", "b"), workers=workers)


def test_there_are_as_many_as_the_handler_says(pools: Pools, forks: Forks) -> None:
    for _ in range(2):
        pools.keep([_queue("g", 2), _queue("h", 1)])
    assert [each.name for each in forks.forked] == [
        "queue worker g/a,b", "queue worker g/a,b", "queue worker h/a,b",
    ]  # fmt: skip
    assert list(pools.children) == forks.forked
    names = [name for each in pools._pools.values() for name in each.workers]
    assert len(set(names)) == 3


def test_no_more_are_asked_for_than_can_be_forked(pools: Pools, forks: Forks) -> None:
    forks.room = 1
    pools.keep([_queue("g", 3)])
    assert len(forks.forked) == 1
    forks.room = 2
    pools.keep([_queue("g", 3)])
    assert len(forks.forked) == 2


def test_who_dies_is_replaced_and_what_it_had_in_hand_is_known(
    pools: Pools, forks: Forks, board: Board, caplog: pytest.LogCaptureFixture
) -> None:
    pools.keep([_queue("g", 2)])
    pools.watch()
    assert (len(list(pools.children)), pools.deaths) == (2, [])
    board.hold(1, 7, 100, 199)
    forks.codes = {1: -9}
    pools.watch()
    [death] = pools.deaths
    assert (death.lease_no, death.first_offset, death.last_offset) == (7, 100, 199)
    assert caplog.messages == ["queue worker g/a,b ended: exit code -9"]
    assert forks.failures == [ServedQueue("g", "a,b")]
    pools.watch()
    assert len(pools.deaths) == 1
    pools.keep([_queue("g", 2)])
    assert len(forks.forked) == 3


@pytest.mark.parametrize(
    ("code", "draining", "failures"),
    [(ExitCode.DRAINED, True, 0), (ExitCode.DRAINED, False, 1), (ExitCode.CRASHED, True, 1)],
)
def test_only_an_end_that_was_asked_for_is_none(
    pools: Pools, forks: Forks, code: int, draining: bool, failures: int
) -> None:
    pools.keep([_queue("g", 1)])
    forks.forked[0].draining, forks.codes = draining, {0: code}
    pools.watch()
    assert len(forks.failures) == len(pools.deaths) == failures
    assert list(pools.children) == []


def test_a_worker_counts_with_a_meter_of_its_own(
    pools: Pools, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[object] = []
    specs: list[Any] = []
    monkeypatch.setattr(module.meter, "use", used.append)
    monkeypatch.setattr(module, "run_queue_worker", lambda spec, *_: specs.append(spec))
    pools.keep([_queue("g", 1)])
    pools._meters.take(0, "g", "a,b")
    forks.runs[0](_ANY, 0, ())
    assert len(used) == 1
    assert used != [None]
    assert specs[0].wait_period_s == Settings().wait_period_ms / 1000
    assert specs[0].worker.startswith(Settings().name_for_people())


class Database:
    """What it answers about a death, and what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.freed: object = 3
        self.noted = "done"
        self.asked: list[str] = []
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "query", lambda _noun, name: name)

    def execute(self, name: str, params: dict[str, object]) -> Any:
        assert params["worker"] == "w"
        if name == "note_death":
            assert (params["lease_no"], params["first_offset"], params["last_offset"]) == (7, 1, 2)
        self.asked.append(name)
        return SimpleNamespace(
            fetchone=lambda: (self.freed if name == "end_holder" else self.noted,)
        )

    def told(self, death: Death) -> tuple[bool, list[str]]:
        self.asked.clear()
        conn: Any = self
        return death.note(conn), self.asked[:]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    return Database(monkeypatch)


def _death(database: Database, lease_no: int = 7) -> Death:
    return Death("w", lease_no, 1, 2, since_s=database.now_s)


def test_a_death_is_told_and_looked_after_once_more_a_second_later(database: Database) -> None:
    death = _death(database)
    assert database.told(death) == (False, ["end_holder", "note_death"])
    database.now_s += DEATH_AGAIN_S - 0.01
    assert database.told(death) == (False, [])
    database.now_s += 0.01
    assert database.told(death) == (True, ["end_holder"])


def test_on_nothing_there_is_no_event_to_tell_of(database: Database) -> None:
    assert database.told(_death(database, 0)) == (False, ["end_holder"])


def test_while_its_session_is_there_it_is_told_again(database: Database) -> None:
    death = _death(database)
    database.noted = "busy"
    for _ in range(2):
        assert database.told(death) == (False, ["end_holder", "note_death"])
    database.noted, database.freed = "done", None
    assert database.told(death) == (False, ["end_holder", "note_death"])
    assert database.told(death) == (False, ["end_holder"])
    database.freed = 0
    assert database.told(death) == (False, ["end_holder"]), "two looks"
    database.now_s += DEATH_AGAIN_S
    assert database.told(death) == (True, ["end_holder"])


def test_patience_has_an_end(database: Database) -> None:
    death = _death(database)
    database.noted = "busy"
    database.now_s += DEATH_PATIENCE_S
    assert not database.told(death)[0]
    database.now_s += 0.01
    assert database.told(death)[0]


def test_deaths_are_forgotten_once_all_is_told(database: Database, pools: Pools) -> None:
    conn: Any = database
    pools.deaths = [_death(database), _death(database)]
    pools.deaths[1].due_s = database.now_s
    left = pools.deaths[0]
    pools.note_deaths(conn)
    assert len(pools.deaths) == 1
    assert pools.deaths[0] is left
