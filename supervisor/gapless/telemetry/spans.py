"""Traces, for programs that use OpenTelemetry: contexts in headers, a span for each call.

Nothing is imported here: while the program has not imported opentelemetry itself, it cannot have
begun a trace, and there is nothing to do. The program sets up its own SDK.
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from gapless.telemetry.names import SYSTEM

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, Tracer

log = logging.getLogger("gapless.worker")

TRACING = "opentelemetry.trace"
"""The module that a program with traces has imported."""

HEADERS = ("traceparent", "tracestate")
"""The headers of W3C Trace Context; in an event they carry its producer's context."""

LINKS_MAX = 128  # the default of an SDK
_HELD_MAX = 64  # spans of failed calls without a verdict yet
_FLUSH_MS = 2000
_VERDICTS = {"waiting": "gapless.retry", "dead": "gapless.dead_letter"}


class CallPlace(NamedTuple):
    """The subject of a call: the first event of its work, the number of events, the attempt."""

    topic: str
    group: str
    partition: int
    offset: int
    events: int
    attempt: int


class Process(NamedTuple):
    """A process span that has begun; token: removes it from the context."""

    span: Span
    token: Any


def current_headers() -> Mapping[str, str]:
    """Return the trace headers for an event that is published now; perhaps none."""
    trace = sys.modules.get(TRACING)
    if trace is None or not trace.get_current_span().get_span_context().is_valid:
        return {}
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - only where used
        TraceContextTextMapPropagator,
    )

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier


def tracer() -> Tracer | None:
    """Return the tracer; None unless the program has set up a provider that records spans."""
    trace = sys.modules.get(TRACING)
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, (trace.ProxyTracerProvider, trace.NoOpTracerProvider)):
        return None
    found: Tracer = trace.get_tracer("gapless")
    return found


def begin(tracer: Tracer, place: CallPlace, headers: Iterable[Mapping[str, Any]]) -> Process | None:
    """Begin the span of a call and make it the current one; link it to the producers' spans.

    Return None if the program's own setup raises: the unit is not to blame.
    """
    try:
        return _begin(tracer, place, headers)
    except Exception:
        log.exception("the span of a call was not begun")
        return None


def _begin(tracer: Tracer, place: CallPlace, headers: Iterable[Mapping[str, Any]]) -> Process:
    from opentelemetry import context, trace  # noqa: PLC0415 - only where used

    span = tracer.start_span(
        f"process {place.topic}",
        context=context.Context(),  # a trace of its own: a batch has many producers
        kind=trace.SpanKind.CONSUMER,
        links=_links(headers),
        attributes={
            SYSTEM.replace("_", "."): "gapless",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": place.topic,
            "messaging.destination.partition.id": str(place.partition),
            "messaging.consumer.group.name": place.group,
            "messaging.batch.message_count": place.events,
            "gapless.offset": place.offset,
        },
    )
    span.add_event("gapless.attempt", {"gapless.attempt": place.attempt})
    return Process(span, context.attach(trace.set_span_in_context(span)))


def end(process: Process, error: BaseException | None) -> None:
    """End the span of a call. With an error it stays open until verdict() tells what follows."""
    from opentelemetry import context, trace  # noqa: PLC0415 - only where used

    context.detach(process.token)
    if error is None:
        _close(process.span)
        return
    process.span.set_attribute("error.type", type(error).__name__)
    process.span.set_status(trace.StatusCode.ERROR)
    with suppress(Exception, SystemExit):  # the text of an error may raise either
        process.span.record_exception(error)
    if id(error) in _held:
        _close(_held.pop(id(error))[1])
    _held[id(error)] = error, process.span
    if len(_held) > _HELD_MAX:
        _close(_held.popitem(last=False)[1][1])


def verdict(error: BaseException | str, state: str, failures: int) -> None:
    """Record the unit's next state on the span of the call that raised `error`, and end it."""
    _, span = _held.pop(id(error), (None, None))
    if span is None:
        return
    name = {"waiting": "gapless.retry", "dead": "gapless.dead_letter"}.get(
        state, f"gapless.{state}"
    )
    span.add_event(name, {"gapless.failures": failures})
    _close(span)


def settle() -> None:
    """End the spans of failed calls without a verdict: these calls are made again."""
    while _held:
        _close(_held.popitem(last=False)[1][1])


def flush() -> None:
    """Send the recorded spans, within 2 s: before a process ends without cleaning up."""
    trace = sys.modules.get(TRACING)
    if trace is None:
        return
    settle()
    send = getattr(trace.get_tracer_provider(), "force_flush", None)
    if send is not None:
        with suppress(Exception):
            send(_FLUSH_MS)


def current_ids() -> tuple[str, str] | None:
    """Return the trace_id and span_id of the current span, in hex; None without one."""
    trace = sys.modules.get(TRACING)
    if trace is None:
        return None
    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return None
    return trace.format_trace_id(found.trace_id), trace.format_span_id(found.span_id)


# By the identity of the error, which is kept here so that no other error gets the same one.
_held: OrderedDict[int, tuple[BaseException, Span]] = OrderedDict()


def _close(span: Span) -> None:
    try:
        span.end()
    except Exception:
        log.exception("the span of a call was not ended")


def _links(headers: Iterable[Mapping[str, Any]]) -> list[Link]:
    """Return a link for each producer's context, without duplicates."""
    from opentelemetry import trace  # noqa: PLC0415 - only where used
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - as above
        TraceContextTextMapPropagator,
    )

    found: dict[tuple[int, int], Link] = {}
    for each in headers:
        carrier = {name: each[name] for name in HEADERS if isinstance(each.get(name), str)}
        context = TraceContextTextMapPropagator().extract(carrier)
        span_context = trace.get_current_span(context).get_span_context()
        if span_context.is_valid:
            found[span_context.trace_id, span_context.span_id] = trace.Link(span_context)
    return list(found.values())
