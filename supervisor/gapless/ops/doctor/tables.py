"""Checks of tables: of those that are locked, and of tables of others whose rows are published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from gapless.db.locked import lock_holders
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.text import plain, quantity

_SHOWN_MAX = 5
_OPEN_S = 2


class PublishedTable(Protocol):
    """A table whose rows are published; problem: why not all of them are."""

    @property
    def table(self) -> str: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def remedy(self) -> str | None: ...


def locks(patient: Patient) -> Iterator[Finding]:
    """Check that no transaction that stays open has locked a table of ours: all others wait."""
    found = lock_holders(patient.conn, _OPEN_S)
    for problem, remedy in found[:_SHOWN_MAX]:
        yield fail("locks", plain(problem), plain(remedy))
    if not found:
        yield ok("locks", "no session has locked a table of gapless")


def published(
    check: str, found: Sequence[PublishedTable], noun: str, command: str
) -> Iterator[Finding]:
    """Report the tables that have a problem, the first of them one by one."""
    ill = [each for each in found if each.problem is not None]
    for each in ill[:_SHOWN_MAX]:
        yield fail(check, plain(f"{each.table}: {each.problem}"), plain(each.remedy or ""))
    if len(ill) > _SHOWN_MAX:
        more = f"{quantity(len(ill) - _SHOWN_MAX, f'more {noun}')} with a problem"
        yield warning(check, more, f"gapless {command} shows all")
