"""The check that each group has a place in the log from which it can continue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless.db.queries import query
from gapless.db.schema import here
from gapless.ops.doctor.finding import Finding, Patient, fail, few, ok
from gapless.ops.rows import rows
from gapless.ops.text import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplacedGroup:
    """A group that is beyond the end of the log, or has lost its offset; with the remedy."""

    group_id: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return plain(f"group {self.group_id} {self.problem}")


def offsets(patient: Patient) -> Iterator[Finding]:
    """Check that no group stands still because it has no place in the log."""
    found = rows(patient.conn, UnplacedGroup, query("doctor", "unplaced_groups"))
    lost = (fail("offsets", str(each), plain(each.remedy)) for each in found)
    yield from few(lost, here("select * from gapless.unplaced_groups"))
    if not found:
        yield ok("offsets", "every group has its place in the log")
