"""What a supervisor's loop does with signals, leases and notifications, turn by turn.

With a control session and children that only write down what they are told.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from math import inf
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from gapless.keys import Partition
from gapless.lease.member import Lease
from gapless.settings import Settings
from gapless.telemetry.meter import Meters
from gapless.worker import supervisor as module
from gapless.worker.plan import Plan
from gapless.worker.reconcile import Running
from gapless.worker.supervisor import Supervisor

ME, PEER = UUID(int=1), UUID(int=2)


def lease(number: int, target: UUID | None = ME, owner: UUID | None = ME) -> Lease:
    return Lease(
        group_id="g", topic="t", topic_id=1, partition_id=number, lease_no=100 + number, group_no=1,
        target=target, owner=owner,
    )  # fmt: skip


def place(number: int) -> Partition:
    return lease(number).partition


class Told:
    """Writes down in a story by which names it is called, and with what."""

    def __init__(self, prefix: str, story: list[object], **has: Any) -> None:
        self._prefix, self._story = prefix, story
        self.__dict__.update(has)

    def __getattr__(self, name: str) -> Any:
        def call(*said: object, **more: object) -> None:
            self._story.append((f"{self._prefix}.{name}", *said, *more.values()))

        return call


class Bell:
    """Signals: says how many requests to stop came."""

    def __init__(self, take: Callable[[], int]) -> None:
        self.take = take

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
    def filenos(self) -> list[int]:
        return [1]

    def private_fds(self) -> list[int]:
        return [2]


class Bells:
    """What its session hears."""

    def __init__(self, heard: Callable[[], list[str]]) -> None:
        self._heard = heard
        self.payloads: list[str] = []
        self.rung: list[set[str]] = []

    def keep(self, _channels: object) -> None: ...
    def take(self) -> set[str]:
        self.payloads += self._heard()
        return self.rung.pop(0) if self.rung else set()


class Desk:
    """A supervisor and all that it talks to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now_s = 1000.0
        self.story: list[object] = []
        self.stops = 0
        self.payloads: list[list[str]] = []
        self.leases: list[Lease] = []
        self.served: dict[Partition, Running] = {}
        self.has_peers = True
        self.changed = self.has_ended = False
        self.replaced: set[tuple[str, str]] = set()
        self.waits: list[float] = []
        key = ("g", "t")
        plan = Plan(
            settings=Settings(**settings), dsn="", handlers={key: _ANY}, terms={key: _TERMS}
        )
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "readable", lambda s, *_: self.waits.append(round(s, 6)))
        monkeypatch.setattr(module, "SignalQueue", lambda: Bell(self._take))
        monkeypatch.setattr(
            module, "ServiceManager", lambda: Told("manager", self.outside, filenos=lambda: [4])
        )
        self.outside: list[object] = []  # what is told to those who look on
        observer = Told("observer", self.outside, filenos=lambda: [3])
        exporter = Told("exporter", self.outside, meters=Meters(0), filenos=lambda: [5])
        self.it = Supervisor(plan, observer, lambda _close: exporter)
        self.member = Told(
            "member", self.story, member_id=ME, leases=self._leases,
            has_peers=lambda: self.has_peers,
        )  # fmt: skip
        self.control = Told(
            "control", self.story, member=self.member, is_member=True, member_id=ME,
            due_s=self.now_s + 60, tend=lambda: "joined", filenos=list, bells=Bells(self._heard),
            changed=lambda: self._once("changed"), replaced=lambda: self.replaced,
        )  # fmt: skip
        self.pools = Told("pools", self.story, due_s=inf)
        self.children = Told(
            "children", self.story, unleased=[self.pools], sharing=Told("sharing", self.story, is_auto=False), running=lambda: self.served,
            has_ended=lambda: self._once("has_ended"), next_restart_s=lambda: None, filenos=list,
            is_empty=lambda: not self.served, is_killed=lambda: False, descriptors=list,
        )  # fmt: skip
        self.it._control, self.it._children = self.control, self.children  # type: ignore[assignment]

    def _leases(self) -> list[Lease]:
        self.story.append("leases")
        return self.leases

    def _heard(self) -> list[str]:
        return self.payloads.pop(0) if self.payloads else []

    def _take(self) -> int:
        stops, self.stops = self.stops, 0
        return stops

    def _once(self, name: str) -> bool:
        value = bool(getattr(self, name))
        setattr(self, name, False)
        return value

    def turn(self) -> list[object]:
        """Take a turn; return what was asked for, but for what every turn asks."""
        self.story.clear()
        self.it._turn()
        usual = {"children.watch", "control.tell", "pools.keep", "children.keep_sequencer"}
        usual |= {"sharing.fit", "sharing.channels", "sharing.ring"}
        usual |= {"member.due_leases", "sharing.looked"}
        return [each for each in self.story if not (isinstance(each, tuple) and each[0] in usual)]

    def asked(self, name: str) -> bool:
        return any(isinstance(each, tuple) and each[0] == name for each in self.story)


_ANY: Any = None
_TERMS: Any = SimpleNamespace(mode="ordered", topic="t")


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


def test_it_has_workers_for_what_is_to_be_its_own_and_gives_up_what_nobody_serves(
    desk: Desk,
) -> None:
    desk.leases = [lease(0), lease(1, owner=PEER), lease(2, owner=ME)]
    desk.served = {place(2): Running(partition=place(2))}
    assert desk.turn() == [
        "leases",
        ("member.disown", place(0)),
        ("children.start", lease(0), ME, _ANY, _TERMS),
        ("children.start", lease(1, owner=PEER), ME, _ANY, _TERMS),
    ]
    assert desk.asked("children.watch")
    assert desk.asked("control.tell")
    assert desk.asked("pools.keep")
    assert desk.asked("children.keep_sequencer")


@pytest.mark.parametrize("why", ["changed", "has_ended", "heard"])
def test_it_looks_at_its_leases_when_they_may_have_changed(desk: Desk, why: str) -> None:
    assert desk.turn() == ["leases"]
    assert desk.turn() == []
    if why == "heard":
        desk.payloads = [["plan"]]
    else:
        setattr(desk, why, True)
    assert desk.turn() == ["leases"]
    assert desk.turn() == []


@pytest.mark.parametrize(
    ("payload", "drains"),
    [
        ("ready 100", True),
        ("ready 101", False),
        ("steady 100", False),
        ("ready -100", False),
        ("ready " + "0" * 16 + "100", False),  # as long as none is
        ("ready " + "0" * 15 + "100", True),
        ("ready", False),
    ],
)
def test_a_partition_is_handed_over_when_its_next_worker_is_ready(
    desk: Desk, payload: str, drains: bool
) -> None:
    desk.leases = [lease(0, target=PEER)]
    desk.served = {place(0): Running(partition=place(0))}
    assert desk.turn() == ["leases"]
    desk.payloads = [[payload]]
    desk.turn()
    assert desk.asked("children.drain") == drains


def test_who_has_not_drained_in_time_is_killed(desk: Desk) -> None:
    desk.turn()
    desk.stops = 1
    desk.turn()
    desk.now_s += desk.it._settings.drain_timeout_ms / 1000
    desk.turn()
    assert not desk.asked("children.kill_all")
    desk.now_s += 0.01
    desk.turn()
    assert desk.asked("children.kill_all")
    desk.children.is_killed = lambda: True
    desk.turn()
    assert not desk.asked("children.kill_all"), "once"


def test_leaving_it_gives_successors_time_unless_there_are_none(desk: Desk) -> None:
    desk.leases = [lease(0, target=PEER)]
    desk.served = {place(0): Running(partition=place(0))}
    desk.stops = 1
    desk.turn()
    assert not desk.asked("children.drain")
    desk.now_s += module.SUCCESSOR_WAIT_S
    desk.turn()
    assert not desk.asked("children.drain")
    desk.has_peers = False
    desk.turn()
    assert desk.asked("children.drain")
    desk.has_peers = True
    desk.now_s += 0.01
    desk.turn()
    assert desk.asked("children.drain"), "the time is over"


def test_cut_off_it_leaves_its_workers_alone_unless_it_is_to_stop(desk: Desk) -> None:
    desk.control.tend, desk.control.is_member = (lambda: "cut"), False
    assert desk.turn() == []
    desk.stops = 1
    desk.turn()
    assert desk.asked("children.drain_all")


def test_trouble_with_the_database_is_the_control_sessions(desk: Desk) -> None:
    error = psycopg.OperationalError("gone")

    def leases() -> list[Lease]:
        raise error

    desk.member.leases = leases
    assert desk.turn() == [("control.note_error", error)]
    desk.member.leases = desk._leases
    assert desk.turn() == ["leases"], "what was to be looked at still is"


def test_with_another_handler_come_other_workers(desk: Desk) -> None:
    other = replace(place(1), topic="other", topic_id=2)
    desk.served = {each: Running(partition=each) for each in (place(0), other)}
    desk.leases = [lease(0), replace(lease(1), topic="other", topic_id=2)]
    assert desk.turn() == ["leases"]
    desk.replaced = {("g", "t")}
    assert desk.turn() == [("children.drain", place(0))]


def test_it_rings_without_a_turn_until_there_is_more_to_do(desk: Desk) -> None:
    desk.it._dirty, desk.children.sharing.is_auto = False, True
    bells = desk.control.bells
    bells.rung = [{"gapless_p_1_0"}, {"gapless_p_1_1"}, set(), {"gapless_p_1_2"}]
    desk.it._wait()
    rung = [each[1] for each in desk.story if each[0] == "sharing.ring"]
    assert rung == [{"gapless_p_1_0"}, {"gapless_p_1_1"}, set()]
    desk.payloads = [["plan"]]
    desk.it._wait()
    assert (bells.rung, bells.payloads) == ([], ["plan"]), "a plan is not waited for"


def test_it_looks_for_its_workers_before_their_own_look_is_due(desk: Desk) -> None:
    """Within a waitPeriodMs, also if the next turn would come later than it should."""
    looked_s = []
    desk.member.due_leases = lambda: frozenset({100})
    for _ in range(100):
        desk.turn()
        looked_s += [each[1:] for each in desk.story if each[0] == "sharing.looked"]
        desk.now_s += 0.05
    times_s = [began_s for began_s, _ in looked_s]
    assert all(0.69 < b - a < 0.76 for a, b in itertools.pairwise(times_s))
    assert {found for _, found in looked_s} == {frozenset({100})}


def test_it_sleeps_until_the_next_thing_is_due(desk: Desk) -> None:
    def waits() -> float:
        desk.waits.clear()
        desk.it._wait()
        return desk.waits[0]

    assert waits() == 0, "there is something to look at"
    desk.control.is_member = False
    assert waits() == module.TICK_S
    desk.control.is_member = True
    desk.turn()
    assert waits() == module.TICK_S
    desk.control.due_s = desk.now_s + 0.1
    assert waits() == 0.1
    desk.children.next_restart_s = lambda: desk.now_s + 0.05
    assert waits() == 0.05
    desk.it._stopping_since_s = desk.now_s
    assert waits() == module.STOPPING_TICK_S
    desk.it._stopping_since_s, desk.pools.due_s = None, desk.now_s + 0.01
    assert waits() == 0.01
    desk.control.due_s = desk.now_s - 5
    assert waits() == 0
