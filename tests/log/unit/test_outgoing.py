"""What is added to events on their way out, and what is counted of them."""

from typing import Any

import pytest

from gapless.log import outgoing as module
from gapless.log.event import NewEvent
from gapless.log.outgoing import outgoing, sent

TRACE = {"traceparent": "00-1-2-01", "tracestate": "s"}


class _Meter:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def took(self, operation: str, seconds: float) -> None:
        self.told.append((operation, seconds))

    def sent(self, topic: str, events: int, error_type: str) -> None:
        self.told.append((topic, events, error_type))


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> _Meter:
    made = _Meter()
    ticks = iter([10.0, 10.5])
    monkeypatch.setattr(module, "current", lambda: made)
    monkeypatch.setattr(module, "perf_counter", lambda: next(ticks))
    return made


def trace(monkeypatch: pytest.MonkeyPatch, headers: dict[str, str] = TRACE) -> None:
    monkeypatch.setattr(module, "current_headers", lambda: headers)


HEADERS: list[tuple[Any, Any]] = [
    (None, TRACE), ({}, TRACE), ({"a": 1}, {"a": 1} | TRACE), ({"tracestate": "own"}, TRACE),
    ({"traceparent": "own"}, {"traceparent": "own"}), ({"traceparent": None}, {"traceparent": None}),
    (b'{"a": 1}', b'{"a": 1}'), ([1], [1]),
]  # fmt: skip


@pytest.mark.parametrize(("own", "expected"), HEADERS)
@pytest.mark.parametrize("many", [False, True])
def test_events_have_the_trace_they_belong_to(
    monkeypatch: pytest.MonkeyPatch, own: Any, expected: Any, many: bool
) -> None:
    """Unless they have one; nothing else of them changes, and what the caller has is left alone."""
    trace(monkeypatch)
    event = NewEvent(payload=1, key="k", headers=own)
    found = list(outgoing(iter([event]) if many else [event]))
    assert found == [NewEvent(payload=1, key="k", headers=expected)]
    assert event == NewEvent(payload=1, key="k", headers=own)
    assert own != TRACE


def test_what_is_no_event_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    trace(monkeypatch)
    strange = object()
    assert list(outgoing(iter([strange]))) == [strange]


def test_without_a_trace_they_are_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    trace(monkeypatch, {})
    one, many = [NewEvent(payload=1)], iter([NewEvent(payload=1)])
    assert outgoing(one) is one
    assert outgoing(many) is many


def test_without_a_meter_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "current", lambda: None)
    trace(monkeypatch, {})
    with sent("orders", iter([])) as nothing:
        assert nothing is None


@pytest.mark.parametrize("headers", [{}, TRACE])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_many_are_counted_as_they_go(
    monkeypatch: pytest.MonkeyPatch, meter: _Meter, count: int, headers: dict[str, str]
) -> None:
    trace(monkeypatch, headers)
    events: Any = outgoing(NewEvent(payload=n) for n in range(count))
    assert not isinstance(events, list)
    with sent("orders", events):
        assert meter.told == []
        assert [event.payload for event in events] == list(range(count))
    assert meter.told == [("publish", 0.5), ("orders", count, "")]


def test_one_is_one(monkeypatch: pytest.MonkeyPatch, meter: _Meter) -> None:
    trace(monkeypatch)
    one = outgoing([NewEvent(payload=1)])
    assert isinstance(one, list)
    with sent("orders", one):
        pass
    assert meter.told == [("publish", 0.5), ("orders", 1, "")]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_how_it_ended_is_counted_too(
    monkeypatch: pytest.MonkeyPatch, meter: _Meter, error: BaseException
) -> None:
    """With those that went before."""
    trace(monkeypatch, {})
    events: Any = outgoing(NewEvent(payload=n) for n in range(3))
    with pytest.raises(type(error)) as caught, sent("orders", events):
        next(events)
        next(events)
        raise error
    assert caught.value is error
    assert meter.told == [("publish", 0.5), ("orders", 2, type(error).__name__)]
