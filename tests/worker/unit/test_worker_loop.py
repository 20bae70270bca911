"""How a worker obeys its supervisor, whose turn is next, and what it waits for.

With partitions, a pipe and a session that only say what a test wants.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from gapless.keys import Partition
from gapless.worker import loop as module
from gapless.worker.board import Board
from gapless.worker.loop import _Worker
from gapless.worker.spec import ExitCode

HERE = Partition(group_id="g", topic="t", topic_id=1, partition_id=0)
PIPE, BELL, SESSION, SLOT = 70, 71, 72, 1


class Place:
    """A partition, as its worker sees it."""

    def __init__(self, _shared: object, partition: Partition, lease_no: int) -> None:
        self.partition, self.lease_no = partition, lease_no
        self.due_s, self.is_owned, self.going_on = 0.0, False, False
        self.oldest_s: float | None = None
        self.driver: Any = None
        self.dropped = self.woken = 0

    def drop(self) -> None:
        self.dropped += 1

    def wake(self) -> None:
        self.woken += 1


class Desk:
    """A worker, what it is told, and what it says."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, partitions_max: int = 9, *, is_auto: bool = False
    ) -> None:
        self.now_s = 1000.0
        self.orders: list[bytes] = []
        self.is_closed = self.is_orphan = self.rings = False
        self.said: list[bytes] = []
        self.story: list[object] = []
        self.channels: set[str] = set()
        self.titles: list[str] = []
        self.board = Board(2)
        say = self.story.append
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module, "Leased", Place)
        monkeypatch.setattr(module, "is_orphan", lambda _spec: self.is_orphan)
        monkeypatch.setattr(module, "readable", self._readable)
        monkeypatch.setattr(module, "listen", lambda _conn, name: say(("listen", name)))
        monkeypatch.setattr(module, "unlisten", lambda _conn, name: say(("unlisten", name)))
        monkeypatch.setattr(module, "setproctitle", self.titles.append)
        bell = SimpleNamespace(fileno=lambda: BELL, silence=self._silence, ring=None)
        monkeypatch.setattr(module, "Wakeup", lambda: bell)
        monkeypatch.setattr(
            module, "Notifications", lambda _conn: SimpleNamespace(channels=self._channels)
        )
        spec: Any = SimpleNamespace(
            slot=SLOT,
            partition=HERE,
            partitions_max=partitions_max,
            is_auto=is_auto,
            member_id=UUID(int=1),
        )
        conn: Any = SimpleNamespace(fileno=lambda: SESSION)
        self.it = _Worker(spec, self, self.board, conn)  # type: ignore[arg-type]
        self.it.serve(100, 0)
        self.story.clear()

    # -- as a pipe --------------------------------------------------------------------------------

    def fileno(self) -> int:
        return PIPE

    def poll(self) -> bool:
        return bool(self.orders) or self.is_closed

    def recv_bytes(self) -> bytes:
        if not self.orders:
            raise EOFError
        return self.orders.pop(0)

    def send_bytes(self, news: bytes) -> None:
        self.said.append(news)

    # ---------------------------------------------------------------------------------------------

    def _readable(self, timeout_s: float, *fds: int) -> bool:
        if fds == (PIPE,) and timeout_s == 0.0:
            return self.poll()
        self.story.append((round(timeout_s, 6), fds))
        self.now_s += timeout_s
        return self.poll()

    def _channels(self) -> set[str]:
        channels, self.channels = self.channels, set()
        return channels

    def _silence(self) -> bool:
        rang, self.rings = self.rings, False
        return rang

    def place(self, number: int) -> Place:
        found: Any = self.it._leased[f"gapless_p_1_{number}"]
        return found

    def serve(self, *numbers: int) -> None:
        self.orders += [f"serve {100 + each} {each}".encode() for each in numbers]
        assert self.it.over() is None

    def end(self, number: int, code: ExitCode) -> None:
        place: Any = self.place(number)
        self.it.took(place, code)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    return Desk(monkeypatch)


def test_a_worker_that_its_supervisor_rings_listens_to_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = Desk(monkeypatch, is_auto=True)
    desk.serve(1, 2)
    desk.orders = [b"ring 2 0", b"ring 2 7"]
    assert desk.it.over() is None
    assert [desk.place(each).woken for each in range(3)] == [1, 0, 2]
    desk.end(1, ExitCode.DRAINED)
    assert desk.story == []
    desk.orders = [b"ring 2", b"ring 0"]
    assert not desk.it.hurries(), "without a session it is for the next one"
    desk.orders = [b"ring 2", b"drop 100"]
    assert desk.it.hurries()


@pytest.mark.parametrize("how", ["drain", "closed"])
def test_told_to_drain_it_lets_go_of_all_and_hears_no_more(desk: Desk, how: str) -> None:
    desk.serve(1)
    if how == "drain":
        desk.orders = [b"drain", b"serve 102 2"]
    desk.is_closed = True
    for _ in range(2):
        assert desk.it.over() is None
    assert [desk.place(each).dropped for each in range(2)] == [1, 1]
    assert len(desk.it._leased) == 2


def test_it_is_over_when_nothing_is_left_and_ends_as_the_last_one_did(desk: Desk) -> None:
    desk.serve(1)
    desk.story.clear()
    desk.end(1, ExitCode.FENCED)
    assert desk.said == [b"ended 101 4"]
    assert desk.story == [("unlisten", "gapless_p_1_1")]
    assert desk.titles[-1] == "gapless: worker g/t/0"
    assert desk.it.over() is None
    desk.end(0, ExitCode.CRASHED)
    assert desk.it.over() == ExitCode.CRASHED
    assert desk.said == [b"ended 101 4"], "the exit code tells of the last one"


def test_one_that_comes_after_the_last_one_has_ended_is_told_of_it(desk: Desk) -> None:
    desk.end(0, ExitCode.FENCED)
    desk.serve(1, 2)
    assert desk.said == [b"ended 100 4"]
    del desk.it._leased["gapless_p_1_2"]
    desk.end(1, ExitCode.DRAINED)
    assert desk.said == [b"ended 100 4"]
    assert desk.it.over() == ExitCode.DRAINED


def test_without_its_supervisor_it_ends(desk: Desk) -> None:
    desk.is_orphan = True
    assert desk.it.over() == ExitCode.ORPHANED
    assert desk.it.hurries()


@pytest.mark.parametrize(
    ("zero_due_s", "owned_0", "one_due_s", "owned_1", "first"),
    [
        (990, True, 995, True, 0),  # the one that is due longest
        (995, True, 990, True, 1),
        (990, True, 995, False, 1),  # what may be taken
        (1000, False, 990, True, 0),  # and is due now
        (1001, False, 995, True, 1),  # if it is due
        (1001, False, 1002, True, 0),
    ],
)
def test_whose_turn_is_next(
    desk: Desk, zero_due_s: float, owned_0: bool, one_due_s: float, owned_1: bool, first: int
) -> None:
    desk.serve(1)
    zero, one = desk.place(0), desk.place(1)
    zero.due_s, zero.is_owned, one.due_s, one.is_owned = zero_due_s, owned_0, one_due_s, owned_1
    assert desk.it.next() is desk.place(first)


def test_who_is_notified_has_a_turn(desk: Desk) -> None:
    desk.serve(1)
    desk.place(0).going_on = True
    one: Any = desk.place(1)
    desk.channels = {"gapless_p_1_1"}
    desk.it.took(one, None)
    assert [desk.place(each).woken for each in range(2)] == [0, 1]
    desk.rings = True
    desk.it.took(one, None)
    assert [desk.place(each).woken for each in range(2)] == [1, 1], "the end of a call"


def test_alone_it_hears_while_it_waits(desk: Desk) -> None:
    desk.channels = {"gapless_p_1_0"}
    zero: Any = desk.place(0)
    desk.it.took(zero, None)
    assert desk.place(0).woken == 0
    desk.it.wait(desk.now_s + 1)
    assert (desk.place(0).woken, desk.story) == (1, []), "it does not wait any more"
    desk.rings = True
    desk.it.wait(desk.now_s + 1)
    assert desk.story == []


@pytest.mark.parametrize(("left_s", "waits_s"), [(0.3, 0.3), (-5, 0), (60, 1.0)])
def test_it_waits_for_what_is_due_an_order_a_call_or_a_notification(
    desk: Desk, left_s: float, waits_s: float
) -> None:
    desk.it.wait(desk.now_s + left_s)
    assert desk.story == [(waits_s, (SESSION, PIPE, BELL))]


def test_a_call_that_hangs_is_work_though_it_waits(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.serve(1, 2)
    desk.it.wait(desk.now_s)
    assert (desk.board.work_ms(SLOT), desk.board.subject(SLOT)) == (0, 0)
    assert desk.board.silence_ms(SLOT) > 0
    desk.place(1).oldest_s, desk.place(2).oldest_s = 0.5, 0.25
    desk.it.wait(desk.now_s)
    assert desk.board.subject(SLOT) == 102
    assert desk.board._since_ns[SLOT] == 250_000_000


def test_it_naps_alive_until_it_is_told_something(desk: Desk) -> None:
    desk.it.nap(2.5)
    assert desk.story == [(1.0, (PIPE,)), (1.0, (PIPE,)), (0.5, (PIPE,))]
    assert desk.board.silence_ms(SLOT) > 0
    for why in ("is_orphan", "is_closed"):
        desk.story.clear()
        setattr(desk, why, True)
        desk.it.nap(2.5)
        assert desk.story == [(1.0, (PIPE,))]
        setattr(desk, why, False)
    desk.story.clear()
    desk.it.nap(0)
    assert desk.story == []
