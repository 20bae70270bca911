"""What is counted, timed and traced of each call of a handler: its events, its time, its error."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

from gapless.consume.batch import Batch
from gapless.consume.unit import Source, Unit
from gapless.consume.user import watch as module
from gapless.consume.user.watch import Watch, watch, watched
from gapless.consume.verdict.failure import UnitFailedError
from gapless.keys import Partition
from gapless.log.event import Row
from gapless.telemetry import spans
from gapless.telemetry.meter import BOUNDS_S, Meter, Meters, Reading, use

HERE = Partition(group_id="g", topic="t", topic_id=1, partition_id=3)


def never(ids: object) -> list[Row]:
    raise AssertionError("it has its rows")


SOURCE = Source(HERE, never, 10, attempt=2)


def row(id_: int) -> Row:
    return (id_, "k", None, b"{}", None, None, None, None, 7, 0, None, None)


ONE, TWO = Unit(SOURCE, 11, [row(11)]), Unit(SOURCE, 12, [row(12), row(13)])


class Clock:
    """A clock that stands unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "perf_counter", clock)
    return clock


class Counted:
    """A meter, and what it says."""

    def __init__(self) -> None:
        self._meters = Meters(1)
        self._meters.take(1)
        made = self._meters.meter(1)
        assert made is not None
        self.meter: Meter = made

    @property
    def reading(self) -> Reading:
        (reading,) = self._meters.read()
        return reading

    @property
    def took(self) -> tuple[dict[int, int], float]:
        times = self.reading.times["process"]
        return {n: c for n, c in enumerate(times.counts) if c}, round(times.sum_s, 6)


@pytest.fixture
def counted() -> Iterator[Counted]:
    counted = Counted()
    yield counted
    use(None)


class Traced:
    """A tracer, and the spans that have ended."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer: Tracer = provider.get_tracer("test")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._kept.get_finished_spans()

    @property
    def offsets(self) -> list[object]:
        return [(each.attributes or {})["gapless.offset"] for each in self.spans]


@pytest.fixture
def traced() -> Iterator[Traced]:
    yield Traced()
    spans.settle()


def test_how_long_each_call_took(clock: Clock, counted: Counted) -> None:
    """As bisect has it: what takes as long as a bound is in its bucket, and the last has none."""
    longer_s = BOUNDS_S[0] * 1.01
    took_s = [0.0, BOUNDS_S[0], longer_s, BOUNDS_S[1], 0.2, 61.0]

    def calls() -> Iterator[tuple[int, Unit]]:
        for n in range(len(took_s)):
            clock.now_s = 0.0
            yield n, TWO

    watching = Watch(counted.meter, None)
    for n, _ in watching.each(calls()):
        clock.now_s = took_s[n]
    watching.close(None)
    assert counted.took == ({0: 2, 1: 2, 10: 1, 17: 1}, round(sum(took_s), 6))
    assert counted.reading.consumed == {"": 2 * len(took_s)}


def test_the_call_that_ended_a_loop_is_counted_by_its_error(
    clock: Clock, counted: Counted, traced: Traced
) -> None:
    watching = Watch(counted.meter, traced.tracer)
    calls = watching.each([(0, ONE), (1, TWO)])
    next(calls)
    next(calls)
    clock.now_s += 0.5
    error = ValueError("no")
    watching.close(UnitFailedError(error))
    assert counted.reading.consumed == {"": 1, "ValueError": 2}
    assert counted.took == ({0: 1, 11: 1}, 0.5)
    assert traced.offsets == [11], "that of the other is open until somebody says what follows"
    spans.verdict(error, "dead", 1)
    assert traced.offsets == [11, 12]
    assert (traced.spans[1].attributes or {})["error.type"] == "ValueError"


def test_an_error_between_calls_is_of_none(counted: Counted, traced: Traced) -> None:
    watching = Watch(counted.meter, traced.tracer)
    assert len(list(watching.each([(0, ONE)]))) == 1
    watching.close(ValueError("of the loop"))
    assert counted.reading.consumed == {"": 1}
    assert traced.offsets == [11]
    left = Watch(counted.meter, traced.tracer)
    left.close(ValueError("before the first"))
    assert counted.reading.consumed == {"": 1}
    assert sum(counted.took[0].values()) == 1


def test_without_a_meter_or_a_tracer(counted: Counted, traced: Traced) -> None:
    """Either may be all there is, in a loop and of one call."""
    for counts, tracer in ((None, traced.tracer), (counted.meter, None)):
        watching = Watch(counts, tracer)
        assert len(list(watching.each([(0, ONE), (1, TWO)]))) == 2
        watching.close(None)
        watching = Watch(counts, tracer)
        next(watching.each([(0, TWO)]))
        watching.close(KeyError("no"))
    spans.settle()
    assert traced.offsets == [11, 12, 12]
    assert counted.reading.consumed == {"": 3, "KeyError": 2}


@pytest.mark.parametrize("who", ["nobody", "meter", "tracer", "both"])
def test_one_call_is_watched_by_whom_asks(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, counted: Counted, traced: Traced, who: str
) -> None:
    use(counted.meter if who in ("meter", "both") else None)
    tracer = traced.tracer if who in ("tracer", "both") else None
    monkeypatch.setattr(spans, "tracer", lambda: tracer)
    assert (watch() is None) == (who == "nobody")
    with watched(Batch([ONE, TWO])):
        clock.now_s += 0.5
    with pytest.raises(UnitFailedError), watched(TWO):
        clock.now_s += 0.25
        raise UnitFailedError(KeyError("no"))
    spans.settle()
    if who in ("meter", "both"):
        assert counted.reading.consumed == {"": 3, "KeyError": 2}
        assert counted.took == ({10: 1, 11: 1}, 0.75)
    else:
        assert counted.reading.consumed == {}
    assert traced.offsets == ([11, 12] if tracer else [])
    for span, events in zip(traced.spans, (3, 2), strict=False):
        said = span.attributes or {}
        assert said["messaging.batch.message_count"] == events
        assert said["messaging.destination.partition.id"] == "3"
        assert said["messaging.consumer.group.name"] == "g"
        assert (span.events[0].attributes or {})["gapless.attempt"] == 2


def test_headers_of_a_streamed_unit_are_not_read(traced: Traced) -> None:
    streamed = Unit(SOURCE, 11, None, [1, 2])
    watching = Watch(None, traced.tracer)
    assert len(list(watching.each([(0, streamed)]))) == 1
    assert traced.offsets == [11]
