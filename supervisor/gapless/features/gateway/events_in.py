"""The events of a body: JSON (one, or an array), JSON lines, CloudEvents; payloads as written.

Events are read one by one, as they are asked for: reading stops at the first invalid one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.datastructures import Headers

from gapless.errors import PublishError
from gapless.features.gateway.body import Body, line_and_column
from gapless.features.gateway.cloudevents import DATA, binary_event, structured_event
from gapless.features.gateway.gateway import Limits
from gapless.features.gateway.plain import HEADERS_BYTES_MAX, plain_events
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.scan import MalformedError, Scan
from gapless.features.load.parse import LineShape, event_of
from gapless.log.event import NewEvent

JSON = ("application/json",)
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
CLOUDEVENT = "application/cloudevents+json"
CLOUDEVENTS = "application/cloudevents-batch+json"
KNOWN = (*JSON, *LINES, CLOUDEVENT, CLOUDEVENTS)
PLAIN_BYTES_MAX = 65_536  # a body that is parsed in one step
ALL_HEADERS_BYTES_MAX = 2 * 1024 * 1024  # of all events of a body together
ALL_ATTRIBUTES_BYTES_MAX = 2 * ALL_HEADERS_BYTES_MAX  # CloudEvents have more attributes

_SHAPE = LineShape(advice='write {"payload": …}, with key, event_type, headers beside it')
_TRACE = ("traceparent", "tracestate")
_MARK = b"\xef\xbb\xbf"
_SHOWN_BYTES = 12


def events_in(media_type: str, headers: Headers, body: Body, limits: Limits) -> Iterator[NewEvent]:
    """Yield the events of a request, 1 or more; of a batch of CloudEvents any number.

    Raises Problem: 400 for an invalid event, with line and column if they are known; 413 for an
    event that is too large, or for one too many; 415 for another media type.
    """
    number = 0
    try:
        for event in _found(media_type, headers, body, limits.event_bytes_max):
            number += 1
            if number > limits.batch_events_max:
                most = f"{limits.batch_events_max} events (maxBatchEvents)"
                raise Problem(413, f"the body has more than {most}")
            yield _traced(headers, event) if _TRACE[0] in headers else event
    except MalformedError as error:
        line, column = line_and_column(body, error.at)
        near = bytes(body[error.at : error.at + _SHOWN_BYTES]).decode(errors="replace")
        where = f"line {line} column {column}" + (f": {near!r}" if near else "")
        raise Problem(400, f"{error} at {where}", line=line, column=column) from None
    if not number and media_type != CLOUDEVENTS:
        raise Problem(400, "no event is in the body")


def _found(media_type: str, headers: Headers, body: Body, bytes_max: int) -> Iterable[NewEvent]:
    if "ce-specversion" in headers and not media_type.startswith("application/cloudevents"):
        return _of_headers(media_type, headers, body, bytes_max)
    if media_type in LINES:
        return _of_lines(body, bytes_max)
    if media_type in JSON and len(body) <= PLAIN_BYTES_MAX:
        return plain_events(body, bytes_max) or _of_json(media_type, body, bytes_max)
    if media_type in (*JSON, CLOUDEVENT, CLOUDEVENTS):
        return _of_json(media_type, body, bytes_max)
    said = media_type or "nothing"
    raise Problem(415, f"Content-Type {said}: it is one of {', '.join(KNOWN)}")


def _of_headers(
    media_type: str, headers: Headers, body: Body, bytes_max: int
) -> Iterator[NewEvent]:
    """Yield the CloudEvent whose attributes are headers."""
    if len(body) > bytes_max:
        raise _too_large("event", 1, bytes_max)
    with _explained("event", lambda: 1):
        event = binary_event(headers, media_type, bytes(body))
    yield event


def _of_json(media_type: str, body: Body, bytes_max: int) -> Iterator[NewEvent]:
    read = _event_reader() if media_type in JSON else _cloudevent_reader()
    scan = _begin(body)
    if not scan.sees(b"[") or media_type == CLOUDEVENT:
        if media_type == CLOUDEVENTS:
            raise Problem(400, "not an array")
        yield _read_one(scan, "event", lambda: 1, bytes_max, read)
        scan.end()
        return
    number = 0
    more = scan.pass_one(b"[")
    if scan.sees(b"]"):
        more = scan.pass_one(b"]")
    while more != b"]":
        number += 1
        yield _read_one(scan, "event", partial(int, number), bytes_max, read)
        more = scan.pass_one(b",]")
    scan.end()


def _of_lines(body: Body, bytes_max: int) -> Iterator[NewEvent]:
    scan, read = _begin(body), _event_reader()
    while not scan.is_over():
        begin, end = scan.at, body.find(b"\n", scan.at)
        line = Scan(body, begin, len(body) if end < 0 else end)
        number = partial(_line_of, body, begin)
        yield _read_one(line, "line", number, bytes_max, read)
        line.end()
        scan.at = line.stop


def _begin(body: Body) -> Scan:
    return Scan(body, len(_MARK) if body.startswith(_MARK) else 0, len(body))


def _line_of(body: Body, at: int) -> int:
    return line_and_column(body, at)[0]


def _read_one(
    scan: Scan,
    what: str,
    number: Callable[[], int],
    bytes_max: int,
    read: Callable[[Scan], NewEvent],
) -> NewEvent:
    """Pass an event, and return it. Raises Problem that says which event is wrong."""
    scan.skip_blanks()
    stop = scan.at + bytes_max
    one = Scan(scan.body, scan.at, min(stop, scan.stop))
    try:
        with _explained(what, number):
            event = read(one)
    except MalformedError as error:
        if error.at < stop:
            raise
        raise _too_large(what, number(), bytes_max) from None
    scan.at = one.at
    return event


def _event_reader() -> Callable[[Scan], NewEvent]:
    """Return a function that reads the events of one body."""
    count = _counter("headers", ALL_HEADERS_BYTES_MAX)

    def read(scan: Scan) -> NewEvent:
        members = scan.members(_SHAPE.advice)
        count(len(members.get("headers", (None, ""))[1]))
        event = event_of(members, _SHAPE)
        if event.transaction_id is not None:
            raise ValueError("transaction_id: a request is a unit, and has one of its own")
        return event

    return read


def _cloudevent_reader() -> Callable[[Scan], NewEvent]:
    count = _counter("attributes", ALL_ATTRIBUTES_BYTES_MAX)

    def read(scan: Scan) -> NewEvent:
        members = scan.members("a CloudEvent is a JSON object")
        count(sum(len(n) + len(text) for n, (_, text) in members.items() if n not in DATA))
        return structured_event(members)

    return read


def _counter(what: str, all_bytes_max: int) -> Callable[[int], None]:
    """Return a function that counts the bytes of headers, and raises ValueError for too many."""
    left = all_bytes_max

    def count(size: int) -> None:
        nonlocal left
        left -= size
        if size > HEADERS_BYTES_MAX or left < 0:
            most = f"{HEADERS_BYTES_MAX} bytes, of all events {all_bytes_max}"
            raise ValueError(f"{what} have at most {most}")

    return count


@contextmanager
def _explained(what: str, number: Callable[[], int]) -> Iterator[None]:
    """Raise errors of an event as a Problem that says which event it is."""
    try:
        yield
    except RecursionError:
        reason = "nested too deeply"
    except (ValueError, PublishError) as error:
        reason = str(error)
    else:
        return
    more: dict[str, Any] = {what: number()}
    raise Problem(400, f"{what} {number()}: {reason}", **more)


def _too_large(what: str, number: int, bytes_max: int) -> Problem:
    more: dict[str, Any] = {what: number}
    return Problem(413, f"{what} {number} has more than {bytes_max} bytes (maxEventBytes)", **more)


def _traced(headers: Headers, event: NewEvent) -> NewEvent:
    """Return the event with the trace context of the request, unless it has its own."""
    if _TRACE[0] in (event.headers or {}):
        return event
    context = {name: headers[name] for name in _TRACE if name in headers}
    return replace(event, headers={**(event.headers or {}), **context})
