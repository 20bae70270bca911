"""Measure and trace the calls of handlers, if they are watched.

In a process without a meter, whose program has not set up OpenTelemetry, they are not: then a call
costs two look-ups more. Otherwise events are counted, and a call is timed and has a span.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.verdict.failure import UnitFailedError
from gapless.log.codec import decode_bytes
from gapless.telemetry import meter, spans
from gapless.telemetry.meter import BOUNDS_S, Meter

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_MARK = spans.HEADERS[0].encode()
_NOTHING: AbstractContextManager[None] = nullcontext()


def watched(work: Unit | Batch, *, is_judged_later: bool = False) -> AbstractContextManager[None]:
    """Within the block one call of a handler is watched, if it is measured or traced.

    is_judged_later: other calls may begin before the verdict on one that failed.
    """
    asked = _asked()
    if asked is None:
        return _NOTHING
    if not is_judged_later:
        spans.settle()
    return _one(work, *asked)


def watch() -> Watch | None:
    """Return a watch of calls that follow one another; None if they are not measured or traced."""
    asked = _asked()
    if asked is None:
        return None
    spans.settle()
    return Watch(*asked)


class Watch:
    """Watches the calls of a loop over units, which close() ends.

    Counts are kept here and recorded once, at the end.
    """

    def __init__(self, counts: Meter | None, tracer: Tracer | None) -> None:
        self._meter = counts
        self._tracer = tracer
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = self._began_s = 0.0
        self._events = 0
        self._unit: Unit | None = None  # the unit whose call is under way
        self._process: spans.Process | None = None

    def each(self, numbered: Iterable[tuple[int, Unit]]) -> Iterator[tuple[int, Unit]]:
        """Yield each unit when it is its turn; its call lasts until the next one is asked for."""
        counts, shortest_s = self._counts, BOUNDS_S[0]
        for each in numbered:
            unit = self._unit = each[1]
            if self._tracer is not None:
                self._process = _begin(self._tracer, unit)
            self._began_s = began_s = perf_counter()
            yield each
            took_s = perf_counter() - began_s
            # Most are short; finding the place of the others takes as long as all else here.
            counts[0 if took_s <= shortest_s else bisect_left(BOUNDS_S, took_s)] += 1
            self._sum_s += took_s
            self._events += len(unit)
            self._unit = None
            if self._process is not None:
                spans.end(self._process, None)

    def close(self, error: BaseException | None) -> None:
        """Record the counts. error: the error that ended the loop, if a call was under way."""
        if self._meter is not None and self._events:
            self._meter.consumed(self._events)
            self._meter.took_all("process", self._counts, self._sum_s)
        if error is not None and self._unit is not None:
            took_s = perf_counter() - self._began_s
            _failed(self._meter, self._process, (self._unit, took_s), error)


def _asked() -> tuple[Meter | None, Tracer | None] | None:
    counts, tracer = meter.current(), spans.tracer()
    return None if counts is None and tracer is None else (counts, tracer)


@contextmanager
def _one(work: Unit | Batch, counts: Meter | None, tracer: Tracer | None) -> Iterator[None]:
    process = None if tracer is None else _begin(tracer, work)
    began_s = perf_counter()
    try:
        yield
    except BaseException as error:
        _failed(counts, process, (work, perf_counter() - began_s), error)
        raise
    if counts is not None:
        counts.took("process", perf_counter() - began_s)
        counts.consumed(_events(work))
    if process is not None:
        spans.end(process, None)


def _failed(
    counts: Meter | None,
    process: spans.Process | None,
    call: tuple[Unit | Batch, float],
    error: BaseException,
) -> None:
    work, took_s = call
    raised = error.error if isinstance(error, UnitFailedError) else error
    if counts is not None:
        counts.took("process", took_s)
        counts.consumed(_events(work), type(raised).__name__)
    if process is not None:
        spans.end(process, raised)


def _events(work: Unit | Batch) -> int:
    return len(work) if isinstance(work, Unit) else sum(map(len, tuple.__iter__(work)))


def _begin(tracer: Tracer, work: Unit | Batch) -> spans.Process | None:
    units: tuple[Unit, ...] = (work,) if isinstance(work, Unit) else tuple(tuple.__iter__(work))
    first = units[0]
    place = spans.CallPlace(
        topic=first.topic,
        group=first.source.partition.group_id,
        partition=first.partition,
        offset=first.first_offset,
        events=_events(work),
        attempt=first.attempt,
    )
    return spans.begin(tracer, place, _headers(units))


def _headers(units: Iterable[Unit]) -> Iterator[Mapping[str, Any]]:
    """Yield the headers of events that may have a trace context, for at most LINKS_MAX events."""
    raw = (each for unit in units for each in unit.raw_headers())
    for each in islice(raw, spans.LINKS_MAX):
        if _MARK not in each:
            continue
        with suppress(ValueError, RecursionError):  # as Event.headers: not all JSON fits Python
            found = decode_bytes(each)
            if isinstance(found, dict):
                yield found
