"""The reason why a unit is set aside, in a form that can be stored for any error (I9)."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg

EXCEPTION_CHARS_MAX = 16_000
REASON_CHARS_MAX = 500


class PartlyFailedError(Exception):
    """A unit failed only for these of its subscriptions (their numbers); `error` is the reason."""

    def __init__(self, error: BaseException, subscriptions: Iterable[int]) -> None:
        super().__init__(error)
        self.error = error
        self.subscriptions = frozenset(subscriptions)


class UnitFailedError(Exception):
    """The handler refused a unit by raising `error`. at: the unit's number, if known."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error
        self.at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason why a unit is set aside: an error that was raised, or words if none was.

    attempts: calls of its handler that failed, of those that this is about.
    only: the subscriptions for which it is to be set aside; None: all that matched.
    """

    error: BaseException | str
    attempts: int = 1
    duration_ms: float | None = None
    only: frozenset[int] | None = None

    def params(self, worker: str = "") -> dict[str, object]:
        """Return its description as parameters for the functions of the database."""
        error = self.error
        text = _storable(error) if isinstance(error, str) else describe(error)
        state = error.sqlstate if isinstance(error, psycopg.Error) else None
        is_state = state is not None and len(state) == 5 and state.isalnum()
        return {
            "reason": _reason(error, text)[:REASON_CHARS_MAX],
            "exception": text,
            "exception_class": None if isinstance(error, str) else _class(error),
            "sqlstate": state if is_state else None,
            "attempts": self.attempts,
            "worker": f"{worker} pid {os.getpid()}".strip(),
            "duration_ms": self.duration_ms,
        }


def crash_reason(deaths: int, former_end: str) -> str:
    """Return in one line why a unit is not called any more; `former_end`: of the last worker."""
    last = f"; the last one: {former_end}" if former_end else ""
    return f"its worker died, or lost its session, {deaths} times while handling it{last}"


def describe(error: BaseException) -> str:
    """Return the error with its traceback as text that PostgreSQL can store.

    Survives NUL bytes, lone surrogates, megabytes of text, and exceptions whose str() raises.
    Bound: EXCEPTION_CHARS_MAX characters.
    """
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-20)
        text = "".join(lines)
    except BaseException as broken:  # noqa: BLE001 - the error's own code may raise anything
        text = f"{type(error).__name__} (its text could not be had: {type(broken).__name__})"
    # Replace characters that cannot be stored, then measure. Both ends tell most: cut the middle.
    text = _storable(text).strip()
    if len(text) > EXCEPTION_CHARS_MAX:
        half = EXCEPTION_CHARS_MAX // 2 - 50
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
    return text


def _reason(error: BaseException | str, text: str) -> str:
    """Return the most telling line: the last one, except lines that PostgreSQL or a group adds."""
    lines = [line.strip(" |") for line in text.splitlines()] or [""]
    if isinstance(error, str) or "__notes__" in error.__dict__:  # its own code may raise anything
        return lines[-1]
    own = [line for line in lines if line.startswith(_class(error))] or lines
    if isinstance(error, BaseExceptionGroup):
        return own[0]
    return own[-1] if isinstance(error, psycopg.Error) else lines[-1]


def _class(error: BaseException) -> str:
    kind = type(error)
    home = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return _storable(f"{home}{kind.__qualname__}")[:REASON_CHARS_MAX]


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
