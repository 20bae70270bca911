"""`partitionsPerWorker: auto`: how many workers, who moves, and which handler is slow; histories."""

import os
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.keys import Partition
from gapless.telemetry.meter import BOUNDS_S, Meters
from gapless.worker.crew import (
    CALM_S,
    SLOW_CALL_S,
    WINDOW_S,
    Slowness,
    batch_size,
    shares,
    surplus,
    workers_max,
)

PARTITIONS = st.dictionaries(
    st.tuples(st.sampled_from("ghk"), st.sampled_from("abc")), st.integers(1, 200)
)


def crew_of(*sizes: int) -> list[list[Partition]]:
    numbers = iter(range(sum(sizes)))
    return [
        [
            Partition(group_id="g", topic="t", topic_id=1, partition_id=next(numbers))
            for _ in range(size)
        ]
        for size in sizes
    ]


@given(PARTITIONS, st.integers(1, 40))
def test_workers_are_few_and_nobody_is_without(partitions: dict, most: int) -> None:
    found = shares(partitions, most)
    assert found.keys() == partitions.keys()
    assert all(1 <= workers <= partitions[served] for served, workers in found.items())
    assert sum(found.values()) == max(len(partitions), min(most, sum(partitions.values())))


@pytest.mark.parametrize(
    ("partitions", "most", "workers"),
    [([8], 4, [4]), ([2], 4, [2]), ([4] * 5, 4, [1] * 5), ([60, 4], 8, [7, 1]), ([], 4, [])],
)
def test_who_has_most_for_a_worker_has_the_next(
    partitions: list[int], most: int, workers: list[int]
) -> None:
    named = {("g", str(number)): each for number, each in enumerate(partitions)}
    assert list(shares(named, most).values()) == workers


def test_as_many_as_cores() -> None:
    assert 1 <= workers_max() <= (os.cpu_count() or 1)


@pytest.mark.parametrize(
    ("events", "handler_s", "most", "following"),
    [
        (1, 0.0, 100, 8),
        (8, 0.0, 100, 64),
        (64, 0.0, 100, 100),
        (1, 0.0005, 100, 8),
        (8, 0.04, 100, 20),
        (20, 0.1, 100, 20),
        (100, 0.5, 100, 20),
        (1, 0.7, 100, 1),
        (3, 0.05, 4, 4),
    ],
)
def test_a_batch_is_as_much_as_its_handler_can_in_a_tenth_of_a_second(
    events: int, handler_s: float, most: int, following: int
) -> None:
    assert batch_size(events, handler_s, most) == following


@pytest.mark.parametrize(
    ("sizes", "workers", "moved"),
    [
        ((2, 2), 2, []),
        ((3, 2, 2), 3, []),
        ((1, 1, 1, 1), 2, [2, 3]),  # another group came: two of its workers go
        ((4, 4), 8, [1, 2, 3, 5, 6, 7]),  # it is slow: each keeps one
        ((2, 2, 0), 4, [1, 3]),
        ((5, 1), 2, [3, 4]),
        ((), 3, []),
    ],
)
def test_what_changes_its_worker(sizes: Sequence[int], workers: int, moved: list[int]) -> None:
    assert [each.partition_id for each in surplus(crew_of(*sizes), workers)] == moved


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(1, 20))
def test_once_moved_nothing_moves_again(sizes: list[int], workers: int) -> None:
    crew = crew_of(*sizes)
    moved = surplus(crew, workers)
    left = [kept for one in crew if (kept := [each for each in one if each not in moved])]
    for each in moved:  # as a start does: a new worker as long as there are too few
        if len(left) < workers:
            left.append([each])
        else:
            min(left, key=len).append(each)
    assert surplus(left, workers) == []


# -- which handler is slow --------------------------------------------------------------------


def slow_at(*looks: tuple[float, dict[int, int], float]) -> list[bool]:
    """What is said at each look: at what time, slow calls so far by worker, the longest turn."""
    slowness = Slowness()
    return [slowness.note(*look) for look in looks]


def test_two_slow_calls_of_one_worker_within_a_minute() -> None:
    assert slow_at((1, {7: 0}, 0), (2, {7: 1}, 0), (3, {7: 2}, 0)) == [False, False, True]


def test_a_worker_that_is_new_brings_what_its_row_has_counted_before() -> None:
    assert slow_at((1, {}, 0), (2, {7: 50}, 0), (3, {7: 51}, 0)) == [False] * 3


def test_first_calls_of_several_workers_are_not_slow_ones() -> None:
    assert slow_at((1, {1: 0, 2: 0, 3: 0}, 0), (2, {1: 1, 2: 1, 3: 1}, 0)) == [False, False]


def test_two_far_apart_are_not_slow() -> None:
    looks = [(WINDOW_S * at, {7: at}, 0.0) for at in range(9)]
    assert slow_at(*looks) == [False] * 9


def test_a_turn_that_goes_on_for_long_is_enough() -> None:
    assert slow_at((1, {}, 0.4), (2, {}, 0.6), (3, {}, 0)) == [False, True, True]


def test_it_shares_again_after_a_calm_that_is_longer_each_time() -> None:
    slowness, now_s, found = Slowness(), 0.0, []
    for _ in range(3):
        assert slowness.note(now_s, {}, 1)
        began_s = now_s
        while slowness.note(now_s, {}, 0):
            now_s += 10
        found.append((now_s - began_s) / CALM_S)
    assert found == [1, 2, 4]


@given(st.lists(st.tuples(st.floats(0.1, 500), st.integers(0, 2)), max_size=60))
def test_it_does_not_flap(looks: list[tuple[float, int]]) -> None:
    """However slow calls fall, it is slow for as long as the calm lasts at least."""
    slowness, now_s, calls = Slowness(), 0.0, 0
    changes: list[tuple[float, bool]] = [(0.0, False)]
    for after_s, more in looks:
        now_s, calls = now_s + after_s, calls + more
        is_slow = slowness.note(now_s, {1: calls}, 0)
        if is_slow != changes[-1][1]:
            changes.append((now_s, is_slow))
    ends = [
        (at, before) for (before, was), (at, now) in zip(changes, changes[1:], strict=False) if was
    ]
    assert all(at - before >= CALM_S for at, before in ends)


def test_slow_calls_are_counted_by_group_and_worker() -> None:
    assert SLOW_CALL_S in BOUNDS_S
    meters = Meters(9)
    for who, group in enumerate("ggh"):
        meters.take(who, group, "t")
        for took_s in (0.01, SLOW_CALL_S, SLOW_CALL_S * 1.01, 3600.0)[: 2 + who]:
            found = meters.meter(who)
            assert found is not None
            found.took("process", took_s)
            found.took("claim", 9)
    assert meters.longer("process", SLOW_CALL_S) == {("g", "t"): {0: 0, 1: 1}, ("h", "t"): {2: 2}}
    meters.give_back(1)
    assert meters.longer("process", SLOW_CALL_S)["g", "t"] == {0: 0}
