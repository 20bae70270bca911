"""The workers of queues: how many there are, and what is known of those that died."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.features.queue import pool as module
from gapless.features.queue.pool import Pools, ServedQueue
from gapless.settings import Settings
from gapless.telemetry.meter import Meters
from gapless.worker.board import Board
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
    assert specs[0].settings == Settings()
    assert specs[0].worker.startswith(Settings().name_for_people())
