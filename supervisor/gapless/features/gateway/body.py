"""Read the body of a request: its size, its time and its encoding are bounded, as is the memory.

The memory is bounded for the bodies of all requests together, and for those of each key or token.
"""

from __future__ import annotations

from asyncio import timeout
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.requests import Request

from gapless.features.gateway.access import require_counts
from gapless.features.gateway.problem import Problem

Body = bytes | bytearray
BODY_S_MAX = 30.0  # the time in which a body has to arrive
WHOLE = "gapless.whole"  # in the extensions of a scope: the body has arrived, nothing waits for it
_NO_ENCODING = ("", "identity")
_CONTINUED = bytes(range(0x80, 0xC0))  # of UTF-8: the bytes of a character after its first one
_PART_BYTES = 65_536
FREE_BYTES = 65_536  # bytes of each body that do not count: small ones are always taken
_LATER = {"Retry-After": "1"}


def _too_long(bytes_max: int) -> Problem:
    return Problem(413, f"the body has more than {bytes_max} bytes (maxBatchBytes)")


async def read_body(
    request: Request, bytes_max: int, grown: Callable[[int], None] | None = None
) -> bytearray:
    """Return the body. Raises Problem: 401, 408, 413 as soon as it is too long, 415.

    grown: called before the body grows, with its new size above FREE_BYTES; it may raise a Problem.
    """
    headers, is_whole = request.headers, WHOLE in request.scope["extensions"]
    if headers.get("content-encoding", "").strip().lower() not in _NO_ENCODING:
        raise Problem(415, "a body is not compressed: leave Content-Encoding out")
    declared = headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > bytes_max:
        raise _too_long(bytes_max)
    if is_whole:
        return await _arrived(request, bytes_max, grown)
    try:
        async with timeout(BODY_S_MAX):
            body = await _arrived(request, bytes_max, grown)
    except TimeoutError:
        raise Problem(408, f"the body did not arrive within {BODY_S_MAX:g} s") from None
    await require_counts(request)
    return body


async def _arrived(
    request: Request, bytes_max: int, grown: Callable[[int], None] | None
) -> bytearray:
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the body ended early")
        part, more = message["body"], message["more_body"]
        size = len(body) + len(part)
        if size > bytes_max:
            raise _too_long(bytes_max)
        if grown is not None and size > FREE_BYTES:
            grown(size - FREE_BYTES)
        body += part
    return body


def content_type(request: Request) -> str:
    """Return the media type without its parameters. Raises Problem (415) for another charset."""
    media_type, _, parameters = request.headers.get("content-type", "").partition(";")
    for each in parameters.split(";"):
        name, _, value = each.partition("=")
        if name.strip().lower() == "charset" and value.strip(" \"'").lower() not in (
            "utf-8",
            "utf8",
            "us-ascii",
        ):
            raise Problem(415, f"charset {value.strip()!r}: a body is UTF-8")
    return media_type.strip().lower()


def text_of(body: Body) -> str:
    """Return a body as text. Raises Problem (400) with line and column if it is not UTF-8."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = line_and_column(body, error.start)
        raise Problem(
            400, f"not UTF-8 at line {line} column {column}", line=line, column=column
        ) from None


def line_and_column(body: Body, at: int) -> tuple[int, int]:
    """Return the line and the column (in characters) of a byte, from 1, without a long copy."""
    begin = body.rfind(b"\n", 0, at) + 1
    parts = (body[n : min(n + _PART_BYTES, at)] for n in range(begin, at, _PART_BYTES))
    column = sum(len(part.translate(None, _CONTINUED)) for part in parts) + 1
    return body.count(b"\n", 0, at) + 1, column


class BodyBudget:
    """Counts the bytes that are held: at most 4 of the largest bodies, 2 for one caller."""

    def __init__(self, batch_bytes_max: int) -> None:
        self._all_bytes_max = 4 * batch_bytes_max
        self._own_bytes_max = 2 * batch_bytes_max
        self._held_bytes: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str) -> Iterator[Callable[[int], None]]:
        """Yield a function to call with the bytes that count, as they grow; hold them to the end.

        caller: "" is a request without a key. The function raises Problem: 429 or 503.
        """
        held = 0

        def grow(size_bytes: int) -> None:
            nonlocal held
            more = size_bytes - held
            if caller and self._held_bytes[caller] + more > self._own_bytes_max:
                most = f"{self._own_bytes_max} bytes of bodies at a time"
                raise Problem(429, f"{caller} may send {most}", headers=_LATER)
            if self._held_bytes.total() + more > self._all_bytes_max:
                most = f"more than {self._all_bytes_max} bytes"
                raise Problem(503, f"bodies of requests take {most}", headers=_LATER)
            self._held_bytes[caller] += more
            held += more

        try:
            yield grow
        finally:
            self._held_bytes[caller] -= held
            if not self._held_bytes[caller]:
                del self._held_bytes[caller]
