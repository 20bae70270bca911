"""Whether what is inserted into attached tables is published."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.ops.attach import list_attachments
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.text import plain, quantity

_SHOWN_MAX = 5


def attachments(patient: Patient) -> Iterator[Finding]:
    """Whether attached tables are copied to their end, and their triggers are there and enabled."""
    found = list_attachments(patient.conn)
    ill = [each for each in found if each.problem is not None]
    for each in ill[:_SHOWN_MAX]:
        yield fail("attachments", plain(f"{each.table}: {each.problem}"), plain(each.remedy or ""))
    if len(ill) > _SHOWN_MAX:
        more = f"{quantity(len(ill) - _SHOWN_MAX, 'more attached table')} with a problem"
        yield warning("attachments", more, "gapless attach shows all")
    if not ill:
        yield ok("attachments", f"{quantity(len(found), 'attached table')}, every row is published")
