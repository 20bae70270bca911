"""Read what a request carries, as far as it may: size, time and encoding are bounded."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

from gapless.gateway.access import require_counts
from gapless.gateway.problem import Problem

BODY_S_MAX = 30.0  # for a body to arrive
_NO_ENCODING = ("", "identity")


def _too_long(bytes_max: int) -> Problem:
    return Problem(413, f"the body has more than {bytes_max} bytes (maxBatchBytes)")


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Return the body. Raises Problem: 401, 408, 413 (as soon as it is too long), 415."""
    body = await _arrived(request, bytes_max)
    await require_counts(request)
    return body


async def _arrived(request: Request, bytes_max: int) -> bytes:
    if request.headers.get("content-encoding", "").strip().lower() not in _NO_ENCODING:
        raise Problem(415, "a body is not compressed: leave Content-Encoding out")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > bytes_max:
        raise _too_long(bytes_max)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for part in request.stream():
                size += len(part)
                if size > bytes_max:
                    raise _too_long(bytes_max)
                parts.append(part)
    except TimeoutError:
        raise Problem(408, f"the body did not arrive within {BODY_S_MAX:g} s") from None
    except ClientDisconnect:
        raise Problem(400, "the body ended early") from None
    return b"".join(parts)


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


def text_of(body: bytes) -> str:
    """Return a body as text. Raises Problem (400) with line and column for what is not UTF-8."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = body[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise Problem(
            400, f"not UTF-8 at line {line} column {column}", line=line, column=column
        ) from None
