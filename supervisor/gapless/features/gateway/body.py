"""Read the body of a request: its size, its time and its encoding are bounded."""

from __future__ import annotations

from asyncio import timeout
from collections.abc import Callable
from contextlib import nullcontext

from starlette.requests import Request

from gapless.features.gateway.access import require_counts
from gapless.features.gateway.problem import Problem

Body = bytes | bytearray
BODY_S_MAX = 30.0  # the time in which a body has to arrive
WHOLE = "gapless.whole"  # in the extensions of a scope: the body has arrived, nothing waits for it
_NO_ENCODING = ("", "identity")
_CONTINUED = bytes(range(0x80, 0xC0))  # of UTF-8: the bytes of a character after its first one
_PART_BYTES = 65_536
_NO_LIMIT = nullcontext()


def _too_long(bytes_max: int) -> Problem:
    return Problem(413, f"the body has more than {bytes_max} bytes (maxBatchBytes)")


async def read_body(
    request: Request, bytes_max: int, grown: Callable[[int], None] | None = None
) -> bytearray:
    """Return the body. Raises Problem: 401, 408, 413 as soon as it is too long, 415.

    grown: called with the new size before the body grows; it may raise a Problem of its own.
    """
    body = await _arrived(request, bytes_max, grown)
    await require_counts(request)
    return body


async def _arrived(
    request: Request, bytes_max: int, grown: Callable[[int], None] | None
) -> bytearray:
    if request.headers.get("content-encoding", "").strip().lower() not in _NO_ENCODING:
        raise Problem(415, "a body is not compressed: leave Content-Encoding out")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > bytes_max:
        raise _too_long(bytes_max)
    try:
        async with _NO_LIMIT if WHOLE in request.scope["extensions"] else timeout(BODY_S_MAX):
            return await _parts(request, bytes_max, grown)
    except TimeoutError:
        raise Problem(408, f"the body did not arrive within {BODY_S_MAX:g} s") from None


async def _parts(
    request: Request, bytes_max: int, grown: Callable[[int], None] | None
) -> bytearray:
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the body ended early")
        part, more = message["body"], message["more_body"]
        if len(body) + len(part) > bytes_max:
            raise _too_long(bytes_max)
        if grown is not None:
            grown(len(body) + len(part))
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
