"""The events of a body: JSON (one, or an array), JSON lines, CloudEvents; payloads as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from starlette.datastructures import Headers

from gapless.errors import PublishError
from gapless.gateway.body import text_of
from gapless.gateway.cloudevents import binary_event, structured_event
from gapless.gateway.plain import plain_events
from gapless.gateway.problem import Problem
from gapless.log.event import NewEvent
from gapless.ops.load.parse import LineShape, NotJsonError, elements, parse_line

JSON = ("application/json",)
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENTS = "application/cloudevents-batch+json"
KNOWN = (*JSON, *LINES, CLOUDEVENT, CLOUDEVENTS)

_SHAPE = LineShape(advice='write {"payload": …}, with key, event_type, headers beside it')
_TRACE = ("traceparent", "tracestate")
_Parse = Callable[[str], NewEvent]


def events_in(
    media_type: str, headers: Headers, body: bytes, *, event_bytes_max: int
) -> list[NewEvent]:
    """Return the events of a request, 1 or more; of a batch of CloudEvents any number.

    Raises Problem: 400 for what is no event, with line and column where that is known; 413 for one
    above event_bytes_max; 415 for another media type.
    """
    is_structured = media_type.startswith("application/cloudevents")
    if "ce-specversion" in headers and not is_structured:
        _bound(len(body), 1, event_bytes_max)
        found = [_told(1, lambda _: binary_event(headers, media_type, body), "")]
    elif media_type in LINES:
        found = list(_of_lines(text_of(body), event_bytes_max))
    elif media_type in (*JSON, CLOUDEVENT, CLOUDEVENTS):
        found = _of_json(media_type, text_of(body), event_bytes_max)
    else:
        said = media_type or "nothing"
        raise Problem(415, f"Content-Type {said}: it is one of {', '.join(KNOWN)}")
    if not found and media_type != CLOUDEVENTS:
        raise Problem(400, "no event is in the body")
    return [_traced(headers, event) for event in found]


def _event(text: str) -> NewEvent:
    event = parse_line(text, _SHAPE)
    if event.transaction_id is not None:
        raise ValueError("transaction_id: a request is a transaction, and has one of its own")
    return event


def _of_json(media_type: str, text: str, event_bytes_max: int) -> list[NewEvent]:
    is_array = media_type in JSON and text.lstrip()[:1] == "["
    if is_array and (plain := plain_events(text, event_bytes_max)):
        return plain
    parse = _event if media_type in JSON else structured_event
    texts = _elements(text) if is_array or media_type == CLOUDEVENTS else [text]
    return [_told(n, parse, _bounded(n, each, event_bytes_max)) for n, each in _count(texts)]


def _of_lines(text: str, event_bytes_max: int) -> Iterator[NewEvent]:
    for number, line in _count(text.split("\n")):
        if line.strip():
            yield _told(number, _event, _bounded(number, line, event_bytes_max), is_line=True)


def _elements(text: str) -> list[str]:
    try:
        return elements(text)
    except NotJsonError as error:
        raise _not_json(error.line, error) from None
    except RecursionError:
        raise Problem(400, "nested too deeply") from None
    except ValueError as error:
        raise Problem(400, str(error)) from None


def _told(number: int, parse: _Parse, text: str, *, is_line: bool = False) -> NewEvent:
    """Return an event; or raise Problem that says which one it is."""
    what = "line" if is_line else "event"
    try:
        return parse(text)
    except NotJsonError as error:
        raise _not_json(number if is_line else error.line, error) from None
    except RecursionError:
        reason = "nested too deeply"
    except (ValueError, PublishError) as error:
        reason = str(error)
    more: dict[str, Any] = {what: number}
    raise Problem(400, f"{what} {number}: {reason}", **more)


def _not_json(line: int, error: NotJsonError) -> Problem:
    reason = str(error).rpartition(" at character ")[0]
    return Problem(
        400, f"{reason} at line {line} column {error.column}", line=line, column=error.column
    )


def _bounded(number: int, text: str, event_bytes_max: int) -> str:
    _bound(len(text.encode("utf-8", "surrogatepass")), number, event_bytes_max)
    return text


def _bound(size: int, number: int, event_bytes_max: int) -> None:
    if size > event_bytes_max:
        raise Problem(
            413,
            f"event {number} has {size} bytes: at most {event_bytes_max} (maxEventBytes)",
            event=number,
        )


def _count(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    return enumerate(texts, start=1)


def _traced(headers: Headers, event: NewEvent) -> NewEvent:
    """Return the event with the request's trace context, unless it has one."""
    if _TRACE[0] not in headers or _TRACE[0] in (event.headers or {}):
        return event
    context = {name: headers[name] for name in _TRACE if name in headers}
    return replace(event, headers={**(event.headers or {}), **context})
