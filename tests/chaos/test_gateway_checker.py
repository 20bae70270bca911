"""Each kind of a bad history of gateways is found, and a good one is not blamed."""

import pytest

from chaos.gateway_checker import check_accepted, check_jobs, check_stream

LOG = [(0, 1), (0, 2), (1, 1)]
ONCE = {place: [(0.0, 0.1)] for place in LOG}


def test_good_histories_pass() -> None:
    assert check_accepted({1, 2, 3}, {1, 2}, [2, 1, 3]) == [], "3 committed, its answer was lost"
    assert check_stream([(0, 1), (1, 1), (0, 2)], LOG) == []
    again = {**ONCE, (0, 1): [(0.0, 1.5), (1.6, 2.1)]}
    assert check_jobs(LOG, again, [(0, 2), (1, 1)], 2.0) == []


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([1], "event 2 was accepted and is lost"),
        ([1, 2, 2], "2 is in the log 2 times"),
        ([1, 2, 9], "9 is in the log and nobody asked"),
    ],
)
def test_what_is_wrong_with_a_log(log: list[int], complaint: str) -> None:
    assert check_accepted({1, 2, 3}, {1, 2}, log) == [complaint]


@pytest.mark.parametrize(
    ("seen", "complaint"),
    [
        ([(0, 1), (1, 1)], "0@2 never came"),
        ([(0, 1), (0, 2), (0, 2), (1, 1)], "0@2 came 2 times"),
        ([(0, 2), (0, 1), (1, 1)], "0@1 came after 0@2"),
        ([(0, 1), (0, 2), (1, 1), (1, 2)], "1@2 came and is not in the log"),
    ],
)
def test_what_is_wrong_with_a_stream(seen: list[tuple[int, int]], complaint: str) -> None:
    assert check_stream(seen, LOG) == [complaint]


def test_what_is_wrong_with_jobs() -> None:
    assert check_jobs(LOG, {**ONCE, (0, 1): [(0.0, 0.1), (0.2, 1.0)]}, [], 2.0) == [
        "0@1 was taken again 1.0 s after it was taken"
    ]
    assert check_jobs(LOG, {**ONCE, (0, 1): []}, [], 2.0) == ["0@1 was never taken"]
    assert check_jobs(LOG, ONCE, [(0, 1), (0, 1)], 2.0) == ["0@1 was acknowledged 2 times"]
