"""Checks of tables: of those that are locked, and of tables of others whose rows are published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from gapless.db.locked import lock_holders
from gapless.ops.doctor.finding import Finding, Patient, fail, few, ok
from gapless.ops.text import plain

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
    holders = (fail("locks", plain(problem), plain(remedy)) for problem, remedy in found)
    yield from few(holders, "end these: the next look shows the others")
    if not found:
        yield ok("locks", "no session has locked a table of gapless")


def published(check: str, found: Sequence[PublishedTable], command: str) -> Iterator[Finding]:
    """Report the tables that have a problem, the first of them one by one."""
    ill = [each for each in found if each.problem is not None]
    failing = (
        fail(check, plain(f"{each.table}: {each.problem}"), plain(each.remedy or ""))
        for each in ill
    )
    yield from few(failing, f"gapless {command} shows all")
