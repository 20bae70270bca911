"""Doctor's check of classic names: programs that use them find what they need."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.classic.ops import list_classic
from gapless.ops.doctor.finding import Finding, Patient, fail, ok
from gapless.ops.text import plain, quantity


def classic(patient: Patient) -> Iterator[Finding]:
    """Check that the view and the trigger for programs of the classic design are there."""
    found = list_classic(patient.conn)
    for each in found:
        if each.problem is not None:
            what = each.group or each.topic
            yield fail("classic", plain(f"{what}: {each.problem}"), plain(each.remedy or ""))
    if not any(each.problem for each in found):
        yield ok("classic", f"{quantity(len(found), 'classic name')}, as somebody asked")
