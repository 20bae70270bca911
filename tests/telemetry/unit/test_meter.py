"""Counters in shared memory: one writer a row, nothing cleared, names that find no room, and what it costs."""

import os
from bisect import bisect_left
from time import perf_counter
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.consume.unit import Source, Unit
from gapless.consume.user.watch import Watch
from gapless.keys import Partition
from gapless.telemetry.meter import BOUNDS_S, OTHER, Meter, Meters, timed, use
from gapless.telemetry.names import METRICS
from gapless.telemetry.supervisor_beat import SupervisorBeat
from support.patience import patience

HERE = Partition(group_id="g", topic="t", topic_id=1, partition_id=0)


def meter(meters: Meters, who: int = 1, group: str = "g", topic: str = "t") -> Meter:
    meters.take(who, group, topic)
    made = meters.meter(who)
    assert made is not None
    return made


def consumed(meters: Meters) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in meters.read():
        for error_type, events in each.consumed.items():
            found[error_type] = found.get(error_type, 0) + events
    return found


def test_what_a_child_counts_is_read_by_its_parent() -> None:
    meters = Meters(4)
    meters.take(1, "g", "t")
    pid = os.fork()
    if pid == 0:
        child = meters.meter(1)
        assert child is not None
        child.consumed(3)
        child.consumed(2, "ValueError")
        child.sent("paid", 4)
        child.took("process", 0.002)
        child.happened("takeover")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    (reading,) = meters.read()
    assert (reading.group, reading.topic) == ("g", "t")
    assert reading.consumed == {"": 3, "ValueError": 2}
    assert reading.sent == {("paid", ""): 4}
    assert reading.events == {"takeover": 1, "fenced": 0, "restart": 0}
    times = reading.times["process"]
    assert times.counts[bisect_left(BOUNDS_S, 0.002)] == 1
    assert times.sum_s == pytest.approx(0.002)


def test_a_row_goes_on_with_its_next_writer_and_no_other_group_gets_it() -> None:
    meters = Meters(4)
    meter(meters, 1).consumed(5)
    meters.give_back(1)
    meter(meters, 1, "other").consumed(1)
    meter(meters, 2).consumed(2, "KeyError")
    rows = {(each.group, each.topic): each.consumed for each in meters.read()}
    assert rows == {("g", "t"): {"": 5, "KeyError": 2}, ("other", "t"): {"": 1}}


def test_without_a_row_nothing_is_counted() -> None:
    meters = Meters(0)
    meters.take(1, "g", "t")
    meters.own("g", "t", "restart")
    meters.give_back(1)
    assert meters.meter(1) is None
    assert list(meters.read()) == []


def test_what_the_supervisor_counts_has_a_row_of_its_own() -> None:
    meters = Meters(4)
    meter(meters)
    for _ in range(3):
        meters.own("g", "t", "restart")
    assert [each.events["restart"] for each in meters.read()] == [0, 3]


@given(st.lists(st.text(max_size=600), min_size=1, max_size=80, unique=True))
def test_names_that_find_no_room_are_counted_together(names: list[str]) -> None:
    """The values of a label are bounded, whatever errors and topics there are; nothing is lost."""
    meters = Meters(1)
    one = meter(meters)
    for name in names:
        one.consumed(1, "".join(c for c in name if c.isalnum()))
        one.sent(name or "t", 1)
    (reading,) = meters.read()
    assert sum(reading.consumed.values()) == sum(reading.sent.values()) == len(names)
    assert len(reading.consumed) + len(reading.sent) <= 32
    if len(names) > 70:
        assert reading.consumed[OTHER] or reading.sent[OTHER, OTHER]


def test_the_table_and_its_names() -> None:
    for name, metric in METRICS.items():
        assert name.startswith(("gapless_", "messaging_"))
        assert (metric.kind == "counter") == name.endswith("_total")
        assert name.endswith("_seconds") or metric.kind != "histogram"
        assert metric.help.endswith(".")
        assert not {"key", "member", "worker"} & set(metric.labels), "no label without a bound"


def test_only_who_counts_is_timed() -> None:
    meters = Meters(1)
    with timed("claim"):
        pass
    use(meter(meters))
    try:
        with timed("claim"):
            pass
        with pytest.raises(ValueError, match="no"), timed("claim"):
            raise ValueError("no")
    finally:
        use(None)
    (reading,) = meters.read()
    assert sum(reading.times["claim"].counts) == 1


def test_a_pulse() -> None:
    pulse = SupervisorBeat()
    assert pulse.member_id is None
    pulse.beat(None, drains=False)
    assert pulse.silence_s < 60
    me = uuid4()
    pulse.beat(me, drains=False)
    assert (pulse.member_id, pulse.is_draining) == (me, False)
    pulse.beat(me, drains=True)
    assert (pulse.member_id, pulse.is_draining) == (me, True)
    pulse.beat(None, drains=True)
    assert pulse.member_id is None


EVENTS = 20_000
COST_US_MAX = 1.0


@pytest.mark.long
def test_what_it_costs_an_event() -> None:
    """At most 1 µs, units of one event each: the best of ten rounds, with and without in turns."""
    row = (1, None, None, b"1", None, None, None, None, 1, 0, None, None)
    source = Source(HERE, lambda _: [], 100)
    units = [Unit(source, n + 1, [row]) for n in range(EVENTS)]
    one = meter(Meters(1))
    plain_s, watched_s = [], []
    for _ in range(10):
        began_s = perf_counter()
        for _unit in enumerate(units):
            pass
        plain_s.append(perf_counter() - began_s)
        began_s = perf_counter()
        watch = Watch(one, None)
        for _unit in watch.each(enumerate(units)):
            pass
        watch.close(None)
        watched_s.append(perf_counter() - began_s)
    cost_us = (min(watched_s) - min(plain_s)) / EVENTS * 1e6
    print(f"{cost_us:.2f} µs an event")  # noqa: T201 - pytest -s shows it
    assert cost_us <= patience(COST_US_MAX)
