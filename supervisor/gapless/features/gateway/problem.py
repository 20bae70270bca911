"""The answers to failed requests: problems of RFC 9457, each with one line of detail."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import psycopg
from starlette.responses import JSONResponse

from gapless.db.connect import is_transient
from gapless.errors import (
    GaplessError,
    InvalidPayloadError,
    PublishError,
    ReceiptError,
    SchemaError,
    UncheckedError,
    UsageError,
    one_line,
)

log = logging.getLogger("gapless.gateway")

RETRY_AFTER_S = 1
_BY_STATE = {
    "GL003": 409, "GL006": 409, "GL007": 409, "GL400": 400, "GL404": 404, "GL409": 409,
    "GL410": 410, "GL422": 422, "GL423": 409, "42501": 403, "55P03": 409,
}  # fmt: skip
_BY_KIND: dict[type[Exception], int] = {
    ReceiptError: 409,
    UncheckedError: 500,
    PublishError: 422,
    UsageError: 400,
    psycopg.DataError: 422,
    GaplessError: 500,
}
_TEXTS = {
    "42501": "the gateway's role may not do that: grant it what docs/use/gateway.md names",
    "55P03": "another request is at it: repeat this one",
}
# The next step of a client of an ordered group, as member `next` of the answer.
_NEXT = {"GL006": "join", "GL007": "poll"}


PROBLEM = {
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "line": {"type": "integer"},
        "column": {"type": "integer"},
        "event": {"type": "integer"},
        "next": {
            "type": "string",
            "enum": sorted(_NEXT.values()),
            "description": "The next call of a member of an ordered group after 409.",
        },
    },
}


class Problem(Exception):  # noqa: N818 - as the RFC calls it
    """A request that failed; `more`: members of the answer beside status, title, detail.

    why: the part that is for the log alone.
    """

    why = ""

    def __init__(
        self, status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers or {}
        self.more = more

    def response(self) -> JSONResponse:
        """Return the answer."""
        title = HTTPStatus(self.status).phrase
        said = {"title": title, "status": self.status, "detail": self.detail, **self.more}
        return JSONResponse(
            said,
            status_code=self.status,
            headers=self.headers,
            media_type="application/problem+json",
        )


def away(error: Exception) -> Problem:
    """Return the problem of a database that does not answer; its address is left out."""
    retry = {"Retry-After": str(RETRY_AFTER_S)}
    found = Problem(503, "the database does not answer: the gateway's log says why", headers=retry)
    found.why = one_line(error)
    return found


def problem_of(error: Exception) -> Problem:
    """Return the problem for an error; unexpected errors are logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidPayloadError):
        return _unfit(error)
    state = _state(error)
    if state in _BY_STATE:
        more: dict[str, Any] = {"next": _NEXT[state]} if state in _NEXT else {}
        return Problem(_BY_STATE[state], _TEXTS.get(state, one_line(error)), **more)
    if is_transient(error) or isinstance(error, SchemaError):
        return away(error)
    for kind, status in _BY_KIND.items():
        if isinstance(error, kind):
            return Problem(status, one_line(error))
    log.error("a request failed", exc_info=error)
    return Problem(500, "the gateway failed: its log says why")


def _unfit(error: InvalidPayloadError) -> Problem:
    """Return the problem of a payload: the place, by JSON pointers, where its schema rejects it."""
    found = error.mismatch
    return Problem(
        400,
        one_line(error),
        pointer=found.pointer,
        keyword=found.keyword,
        reason=found.reason,
        schema=error.schema,
        event=error.event,
    )


def _state(error: BaseException) -> str:
    """Return the SQLSTATE of an error, or of its cause."""
    for each in (error, error.__cause__):
        state = getattr(each, "sqlstate", None)
        if isinstance(state, str):
            return state
    return ""
