"""Doctor's check of captured tables: every change is published."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.capture.ops import list_captures
from gapless.ops.doctor.finding import Finding, Patient, ok
from gapless.ops.doctor.tables import published
from gapless.ops.text import quantity


def captures(patient: Patient) -> Iterator[Finding]:
    """Check that captured tables have their triggers, enabled, and the columns that these need."""
    found = list_captures(patient.conn)
    yield from published("captures", found, "capture")
    if not any(each.problem for each in found):
        yield ok("captures", f"{quantity(len(found), 'captured table')}, every change is published")
