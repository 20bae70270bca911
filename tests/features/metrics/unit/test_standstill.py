"""For how long a partition stands still: from looks alone, in a history."""

from dataclasses import replace

from gapless.features.metrics.look import GroupStanding, Standstill

ROW = GroupStanding(
    group_id="g",
    topic="t",
    partition_id=0,
    owner_id=None,
    is_paused=False,
    next_offset=5,
    lag=3,
    lag_s=1.0,
    error=None,
)
KEY = ROW.key


def test_it_begins_when_it_is_first_seen() -> None:
    still = Standstill()
    assert still.add([ROW], 100.0)[KEY] == 0
    assert still.add([ROW], 110.0)[KEY] == 10
    assert still.add([replace(ROW, lag=9)], 120.0)[KEY] == 20, "more events came, none was passed"


def test_it_ends_when_one_is_passed() -> None:
    still = Standstill()
    still.add([ROW], 100.0)
    assert still.add([replace(ROW, next_offset=6)], 150.0)[KEY] == 0
    assert still.add([replace(ROW, next_offset=6)], 151.0)[KEY] == 1


def test_who_has_nothing_to_do_does_not_stand_still() -> None:
    still = Standstill()
    idle = replace(ROW, lag=0)
    still.add([idle], 100.0)
    assert still.add([idle], 1000.0)[KEY] == 0
    assert still.add([ROW], 1001.0)[KEY] == 1, "since the last look that saw nothing"


def test_a_pause_is_no_standstill() -> None:
    still = Standstill()
    still.add([ROW], 100.0)
    paused = replace(ROW, is_paused=True)
    assert still.add([paused], 200.0)[KEY] == 0
    assert still.add([ROW], 201.0)[KEY] == 1


def test_partitions_that_are_gone_are_forgotten() -> None:
    still = Standstill()
    still.add([ROW], 100.0)
    assert still.add([], 110.0) == {}
    assert still.add([ROW], 120.0)[KEY] == 0
