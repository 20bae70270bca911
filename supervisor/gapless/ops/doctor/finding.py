"""A finding of the doctor, and the patient that a check is given to find it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg import Connection

from gapless.feature import Check
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from gapless.status import Snapshot

__all__ = ["Finding"]

Level = Literal["ok", "warning", "FAIL"]
_WORST_FIRST = ("FAIL", "warning", "ok")
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report. remedy: the advice; empty if there is nothing to do."""

    name: str
    level: Level
    text: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Patient:
    """The database to examine: a session in autocommit, and another for checks that take two."""

    conn: Connection[Any]
    second: Connection[Any]

    @cached_property
    def look(self) -> Snapshot:
        """The snapshot that status shows, taken once for all checks."""
        from gapless.status import snapshot  # noqa: PLC0415 - imports rich, which ops does not need

        return snapshot(self.conn)


def ok(name: str, text: str) -> Finding:
    """Report that all is well."""
    return Finding(name=name, level="ok", text=text)


def warning(name: str, text: str, remedy: str = "") -> Finding:
    """Report a state that works, but that a person should know of."""
    return Finding(name=name, level="warning", text=text, remedy=remedy)


def fail(name: str, text: str, remedy: str) -> Finding:
    """Report that gapless cannot work, or cannot keep a promise."""
    return Finding(name=name, level="FAIL", text=text, remedy=remedy)


def few(found: Iterable[Finding], advice: str) -> Iterator[Finding]:
    """Yield the worst of the findings of a check, and the number of the others.

    advice: the command that shows all.
    """
    ordered = sorted(found, key=lambda each: _WORST_FIRST.index(each.level))
    yield from ordered[:_SHOWN_MAX]
    rest = ordered[_SHOWN_MAX:]
    if rest:
        yield replace(rest[0], text=quantity(len(rest), "more finding"), remedy=advice)


def examine(patient: Patient, checks: tuple[Check, ...]) -> Iterator[Finding]:
    """Make the checks in turn; a check that may not look says so, and the others continue."""
    for check in checks:
        name = check.__name__.replace("_", "-")
        try:
            yield from check(patient)
        except psycopg.errors.InsufficientPrivilege as error:
            yield warning(
                name,
                f"this role may not look: {error.diag.message_primary}",
                "run doctor as a role with gapless_operator",
            )
        except psycopg.Error as error:
            if patient.conn.broken:
                raise
            text = error.diag.message_primary or str(error)
            yield warning(name, f"cannot be told: {' '.join(text.split())}")
