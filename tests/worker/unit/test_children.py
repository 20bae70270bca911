"""What a supervisor does with its children: when it forks, drains, kills and forgets them.

With children that live and end as a test wants, and a clock that stands still.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from gapless.keys import Partition
from gapless.lease.member import Lease
from gapless.settings import Settings
from gapless.telemetry.meter import Meters
from gapless.worker import children as module
from gapless.worker import retries
from gapless.worker.child import explain_exit
from gapless.worker.children import STEADY_AFTER_S, Children
from gapless.worker.plan import Plan
from gapless.worker.spec import ExitCode

ME = UUID(int=1)


@dataclass
class Process:
    """A child that runs until `code` says how it ended."""

    name: str
    slot: int
    code: int | None = None
    age_s: float = 0.0
    killed: bool = False
    draining: bool = False
    orders: list[tuple[object, ...]] = field(default_factory=list)
    said: list[list[str]] = field(default_factory=list)

    @property
    def news(self) -> Any:
        return SimpleNamespace(fileno=lambda: self.slot)

    def descriptors(self) -> list[int]:
        return [self.slot]

    def order(self, *words: object) -> None:
        self.orders.append(words)

    def heard(self) -> Iterator[list[str]]:
        said, self.said = self.said, []
        yield from said

    def drain(self) -> None:
        self.draining = True

    def kill(self, why: str = "") -> None:
        self.killed = True

    def reap(self) -> int | None:
        return self.code

    def stopped_ms(self) -> float:
        return 0.0

    def explain(self, code: int) -> str:
        return explain_exit(code)


class Home:
    """Children, those that were forked, and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, partitions_per_worker: int) -> None:
        self.now_s = 1000.0
        self.forked: list[Process] = []
        for each in (module, retries):
            monkeypatch.setattr(each, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module.Child, "fork", self._fork)
        monkeypatch.setattr(module, "run_worker", self._is_child)
        monkeypatch.setattr(module.meter, "use", lambda _: None)
        settings = Settings(partitions_per_worker=partitions_per_worker)
        self.meters = Meters(8)
        plan = Plan(settings=settings, dsn="", handlers={}, terms={})
        self.children = Children(plan, 1, list, self.meters)
        self.board = self.children.board
        self.specs: list[Any] = []

    def _is_child(self, spec: Any, _pipe: object, _board: object) -> None:
        self.specs.append(spec)

    def _fork(self, name: str, slot: int, run: Callable[[Any], None]) -> Process:
        run("pipe")
        process = Process(name, slot)
        self.forked.append(process)
        return process

    def start(self, number: int = 0) -> None:
        self.children.start(lease(number), ME, _ANY, _ANY)

    def end(self, process: Process, code: int) -> None:
        process.code = code
        self.children.watch()

    def wait_s(self) -> float | None:
        due_s = self.children.next_restart_s()
        return None if due_s is None else round(due_s - self.now_s, 6)


_ANY: Any = None


def lease(number: int) -> Lease:
    return Lease(
        group_id="g", topic="t", topic_id=1, partition_id=number, lease_no=100 + number, group_no=1,
        target=ME, owner=None,
    )  # fmt: skip


def place(number: int) -> Partition:
    return lease(number).partition


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(monkeypatch, 1)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(monkeypatch, 3)


def test_who_dies_again_and_again_waits_ever_longer(home: Home) -> None:
    waits = []
    for _ in range(3):
        home.start()
        assert home.wait_s() is None
        home.end(home.forked[-1], ExitCode.CRASHED)
        waits.append(home.wait_s())
        assert home.children.has_ended()
        assert not home.children.has_ended(), "told once"
        if waits[-1]:
            home.start()
            home.now_s += waits[-1] - 0.01
            home.start()
            home.now_s += 0.01
        assert home.children.is_empty()
    assert waits == [None, 0.2, 0.4]
    assert [reading.events for reading in home.meters.read() if reading.events.get("restart")]


@pytest.mark.parametrize("how", ["is old", "has completed something"])
def test_who_had_got_on_is_forked_again_at_once(home: Home, how: str) -> None:
    for _ in range(3):
        home.start()
        child = home.forked[-1]
        if how == "is old":
            child.age_s = STEADY_AFTER_S + 0.1
        else:
            home.board.complete(child.slot)
        home.end(child, ExitCode.CRASHED)
        assert home.wait_s() is None


def _dies_at(home: Home, number: int) -> Process:
    """Let a worker of 0, 1 and 2 die at work on one; fork it again, alone."""
    for each in range(3):
        home.start(each)
    home.board.begin(home.forked[0].slot, 100 + number)
    home.end(home.forked[0], -9)
    for each in range(3):
        home.start(each)
    return home.forked[1 + number]


def test_a_partition_at_which_a_worker_died_is_served_alone(
    shared: Home, caplog: pytest.LogCaptureFixture
) -> None:
    solo = _dies_at(shared, 0)
    assert [line for line in caplog.messages if "at work on g/t/0" in line]
    assert [each.name for each in shared.forked[1:]] == ["worker g/t/0", "worker g/t/1,2"]
    assert solo.orders == []
    assert [spec.former_end for spec in shared.specs] == [
        "", "signal SIGKILL (out of memory?)", "",
    ]  # fmt: skip


def test_it_is_served_with_the_others_again_once_it_has_been_quiet(shared: Home) -> None:
    solo = _dies_at(shared, 0)
    solo.age_s = STEADY_AFTER_S - 0.1
    shared.children.watch()
    assert solo.orders == []
    solo.age_s = STEADY_AFTER_S
    shared.children.watch()
    assert solo.orders == [("drop", 100)]
    shared.children.watch()
    assert solo.orders == [("drop", 100)], "told once"
    shared.end(solo, ExitCode.DRAINED)
    shared.start(0)
    assert shared.forked[2].orders[-1] == ("serve", 100, 0)


def test_with_nobody_else_it_stays_where_it_is_and_takes_others(shared: Home) -> None:
    shared.start(0)
    shared.board.begin(shared.forked[0].slot, 100)
    shared.end(shared.forked[0], -9)
    shared.start(0)
    solo = shared.forked[1]
    solo.age_s = STEADY_AFTER_S
    shared.children.watch()
    assert solo.orders == []
    shared.start(1)
    assert solo.orders == [("serve", 101, 1)]


def test_the_end_of_a_service_is_heard_while_its_worker_continues(
    shared: Home, caplog: pytest.LogCaptureFixture
) -> None:
    shared.start(0)
    shared.start(1)
    [child] = shared.forked
    for _ in range(2):
        child.said = [["ended", "101", str(int(ExitCode.FENCED))]]
        shared.children.watch()
        assert set(shared.children.running()) == {place(0)}
        assert shared.children.has_ended()
        shared.start(1)
    assert shared.wait_s() == 0.2, "the second time in a row"
    assert caplog.messages == ["worker g/t/1 ended: exit code 4"] * 2
    shared.now_s += 1
    shared.start(1)
    shared.children.drain(place(1))
    child.said = [["ended", "101", "0"]]
    shared.children.watch()
    assert len(caplog.messages) == 2, "as asked"
