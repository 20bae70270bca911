"""What is added to events on their way out, and what is counted of them."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    TraceState,
    use_span,
)

from gapless.log.event import NewEvent
from gapless.log.outgoing import outgoing, sent
from gapless.telemetry.meter import Meter, Meters, use

SPAN = NonRecordingSpan(SpanContext(1, 2, False, TraceFlags(1), TraceState([("s", "1")])))
TRACE = {"traceparent": f"00-{1:032x}-{2:016x}-01", "tracestate": "s=1"}


@pytest.fixture
def traced() -> Iterator[None]:
    with use_span(SPAN):
        yield


@pytest.fixture
def meter() -> Iterator[Meter]:
    rows = Meters(1)
    rows.take(1)
    made = rows.meter(1)
    use(made)
    yield made
    use(None)


def told(meter: Meter) -> tuple[int, dict[tuple[str, str], int]]:
    """How many times were noted, and how many events were counted."""
    read = meter.read()
    return sum(read.times["publish"].counts), read.sent


HEADERS: list[tuple[Any, Any]] = [
    (None, TRACE), ({}, TRACE), ({"a": 1}, {"a": 1} | TRACE), ({"tracestate": "own"}, TRACE),
    ({"traceparent": "own"}, {"traceparent": "own"}), ({"traceparent": None}, {"traceparent": None}),
    (b'{"a": 1}', b'{"a": 1}'), ([1], [1]),
]  # fmt: skip


@pytest.mark.parametrize(("own", "expected"), HEADERS)
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.usefixtures("traced")
def test_events_have_the_trace_they_belong_to(own: Any, expected: Any, many: bool) -> None:
    """Unless they have one; nothing else of them changes, and what the caller has is left alone."""
    event = NewEvent(payload=1, key="k", headers=own)
    found = list(outgoing(iter([event]) if many else [event]))
    assert found == [NewEvent(payload=1, key="k", headers=expected)]
    assert event == NewEvent(payload=1, key="k", headers=own)
    assert own != TRACE


def test_without_a_trace_they_are_what_they_were() -> None:
    one, many = [NewEvent(payload=1)], iter([NewEvent(payload=1)])
    assert outgoing(one) is one
    assert outgoing(many) is many


@pytest.mark.parametrize("span", [INVALID_SPAN, SPAN])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_many_are_counted_as_they_go(meter: Meter, count: int, span: Span) -> None:
    with use_span(span):
        events: Any = outgoing(NewEvent(payload=n) for n in range(count))
    assert not isinstance(events, list)
    with sent("orders", events):
        assert told(meter) == (0, {})
        assert [event.payload for event in events] == list(range(count))
    assert told(meter) == (1, {("orders", ""): count})


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_how_it_ended_is_counted_too(meter: Meter, error: BaseException) -> None:
    """With those that went before."""
    events: Any = outgoing(NewEvent(payload=n) for n in range(3))
    with pytest.raises(type(error)) as caught, sent("orders", events):
        next(events)
        next(events)
        raise error
    assert caught.value is error
    assert told(meter) == (1, {("orders", type(error).__name__): 2})
