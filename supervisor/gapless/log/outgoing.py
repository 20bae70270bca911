"""Add the trace context to events that are published, and count them.

Without OpenTelemetry in the program, and outside of a supervisor's worker that measures, nothing is
added, and the cost is two look-ups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

from gapless.log.event import NewEvent
from gapless.log.given import Events
from gapless.telemetry.meter import UNTIMED, Meter, in_use
from gapless.telemetry.spans import HEADERS, current_headers


def outgoing(events: Events) -> Events:
    """Return the events with the context of the current span in their headers.

    An event that has a traceparent keeps it, and so do headers that are JSON text already.
    """
    headers = current_headers()
    if isinstance(events, list):
        return [_traced(headers, event) for event in events] if headers else events
    traced = map(partial(_traced, headers), events) if headers else events
    return _Counted(traced) if in_use else traced


def sent(topic: str, events: Events) -> AbstractContextManager[None]:
    """Within the block the events are published: record their number, the time, and the result.

    events: those that outgoing() returned.
    """
    return _sent(in_use[0], topic, events) if in_use else UNTIMED


class _Counted(Iterator[object]):
    """Counts the events that it yields."""

    def __init__(self, events: Iterator[object]) -> None:
        self._iterator = events
        self.events = 0

    def __next__(self) -> object:
        event = next(self._iterator)
        self.events += 1
        return event


@contextmanager
def _sent(meter: Meter, topic: str, events: Events) -> Iterator[None]:
    began_s = perf_counter()
    error_type = ""
    try:
        yield
    except BaseException as error:
        error_type = type(error).__name__
        raise
    finally:
        meter.took("publish", perf_counter() - began_s)
        meter.sent(topic, events.events if isinstance(events, _Counted) else 1, error_type)


def _traced(headers: Mapping[str, str], event: Any) -> Any:
    if not isinstance(event, NewEvent):
        return event  # publish() will say so
    own: Any = event.headers  # of any type, as the caller gave them
    if own is None:
        return replace(event, headers=dict(headers))
    if not isinstance(own, dict) or HEADERS[0] in own:
        return event
    return replace(event, headers={**own, **headers})
