"""Whether what is written to captured tables is published."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.ops.captures import list_captures
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.text import plain, quantity

_SHOWN_MAX = 5


def captures(patient: Patient) -> Iterator[Finding]:
    """Whether the triggers of captured tables are there and enabled, and their columns."""
    found = list_captures(patient.conn)
    ill = [each for each in found if each.problem is not None]
    for each in ill[:_SHOWN_MAX]:
        yield fail("captures", plain(f"{each.table}: {each.problem}"), plain(each.remedy or ""))
    if len(ill) > _SHOWN_MAX:
        more = f"{quantity(len(ill) - _SHOWN_MAX, 'more captured table')} with a problem"
        yield warning("captures", more, "gapless capture shows all")
    if not ill:
        yield ok("captures", f"{quantity(len(found), 'captured table')}, every change is published")
