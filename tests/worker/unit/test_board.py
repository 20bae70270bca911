"""What children say on the board, and what their supervisor reads there."""

import pytest

from gapless.worker import board as module
from gapless.worker.board import Board


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the time in ms, which stands still until a test changes it."""
    now_ms = [5_000]
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: now_ms[0] * 1_000_000)
    return now_ms


def test_work_and_silence_are_counted_from_what_was_said_last(clock: list[int]) -> None:
    board = Board(2)
    assert (board.work_ms(1), board.silence_ms(1)) == (0, 0), "nothing was said yet"
    board.begin(1)
    clock[0] += 700
    assert (board.work_ms(1), board.silence_ms(1)) == (700, 0)
    board.rest(1)
    clock[0] += 30
    assert (board.work_ms(1), board.silence_ms(1)) == (0, 30)
    assert (board.work_ms(0), board.silence_ms(0)) == (0, 0), "the other one"


def test_a_team_knows_when_one_of_it_handled_something(clock: list[int]) -> None:
    board = Board(4)
    for slot, team in enumerate((0, 1, 1, 4)):
        board.clear(slot, team)
    board.handle(1)
    clock[0] += 700
    board.clear(1, 0)
    assert [board.handled_s(slot) for slot in range(4)] == [0, 0, 5, 0]
    board.handle(2)
    assert board.handled_s(2) == 5.7
    assert [board.completed(slot) for slot in range(4)] == [0, 0, 1, 0]


def test_work_may_have_begun_before(clock: list[int]) -> None:
    board = Board(1)
    board.begin(0, 7, since_s=1.5)
    assert board.work_ms(0) == clock[0] - 1500


def test_what_is_at_hand_is_known_until_it_is_acquitted() -> None:
    board = Board(2)
    assert board.subject(1) == 0
    board.begin(1, 7)
    board.rest(1)
    assert board.subject(1) == 7
    board.acquit(1)
    assert board.subject(1) == 0
    board.begin(1, 8)
    board.begin(1)
    assert board.subject(1) == 0, "at work, on nothing of anybody's"


def test_events_of_a_queue_are_named_until_there_are_none() -> None:
    board = Board(2)
    board.meet(1, 2)
    board.hold(1, 7, 100, 199)
    assert board.held(1) == (2, 7, 100, 199)
    board.hold(1, 0, 0, 0)
    assert board.held(1)[:2] == (2, 0)
    assert board.held(0) == (0, 0, 0, 0)


def test_events_are_named_only_once_all_of_them_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may die between two words: then nothing is known, rather than something wrong."""
    board = Board(1)
    board.hold(0, 7, 100, 199)
    seen = []

    class Watched:
        def __setitem__(self, slot: int, value: int) -> None:
            seen.append(board.subject(slot))

    monkeypatch.setattr(board, "_first_offsets", Watched())
    monkeypatch.setattr(board, "_last_offsets", Watched())
    board.hold(0, 8, 300, 399)
    assert seen == [0, 0]


def test_a_slot_is_cleared_for_the_next_child(clock: list[int]) -> None:
    board = Board(2)
    for _ in range(3):
        board.complete(1)
    board.begin(1, 7)
    assert (board.completed(1), board.completed(0)) == (3, 0)
    board.clear(1)
    clock[0] += 10
    assert (board.completed(1), board.subject(1)) == (0, 0)
    assert (board.work_ms(1), board.silence_ms(1)) == (0, 10), "alive from now on"
