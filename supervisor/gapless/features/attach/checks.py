"""Doctor's check of attached tables: every row is published."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.attach.ops import list_attachments
from gapless.ops.doctor.finding import Finding, Patient, ok
from gapless.ops.doctor.tables import published
from gapless.ops.text import quantity


def attachments(patient: Patient) -> Iterator[Finding]:
    """Check that attached tables are copied to their end, and followed, and no row was changed."""
    found = list_attachments(patient.conn)
    yield from published("attachments", found, "attach")
    if not any(each.problem for each in found):
        yield ok("attachments", f"{quantity(len(found), 'attached table')}, every row is published")
