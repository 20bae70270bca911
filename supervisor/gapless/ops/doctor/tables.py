"""Checks that tables can be used, and that rows of captured and attached ones are published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gapless.db.locked import lock_holders
from gapless.features.attach.ops import AttachmentInfo, list_attachments
from gapless.features.capture.ops import CaptureInfo, list_captures
from gapless.features.classic.ops import list_classic
from gapless.ops.doctor.finding import Finding, Patient, fail, ok, warning
from gapless.ops.text import plain, quantity

_SHOWN_MAX = 5
_OPEN_S = 2


def locks(patient: Patient) -> Iterator[Finding]:
    """Check that no transaction that stays open has locked a table of ours: all others wait."""
    found = lock_holders(patient.conn, _OPEN_S)
    for problem, remedy in found[:_SHOWN_MAX]:
        yield fail("locks", plain(problem), plain(remedy))
    if not found:
        yield ok("locks", "nobody has locked a table of gapless")


def captures(patient: Patient) -> Iterator[Finding]:
    """Check that captured tables have their triggers, enabled, and the columns that these need."""
    found = list_captures(patient.conn)
    yield from _ill("captures", found, "captured table", "capture")
    if not any(each.problem for each in found):
        yield ok("captures", f"{quantity(len(found), 'captured table')}, every change is published")


def attachments(patient: Patient) -> Iterator[Finding]:
    """Check that attached tables are copied to their end, and followed, and no row was changed."""
    found = list_attachments(patient.conn)
    yield from _ill("attachments", found, "attached table", "attach")
    if not any(each.problem for each in found):
        yield ok("attachments", f"{quantity(len(found), 'attached table')}, every row is published")


def classic(patient: Patient) -> Iterator[Finding]:
    """Check that the view and the trigger for programs of the classic design are there."""
    found = list_classic(patient.conn)
    for each in found:
        if each.problem is not None:
            what = each.group or each.topic
            yield fail("classic", plain(f"{what}: {each.problem}"), plain(each.remedy or ""))
    if not any(each.problem for each in found):
        yield ok("classic", f"{quantity(len(found), 'classic name')}, as somebody asked")


def _ill(
    check: str, found: Sequence[CaptureInfo] | Sequence[AttachmentInfo], noun: str, command: str
) -> Iterator[Finding]:
    """Report the tables that have a problem, the first of them one by one."""
    ill = [each for each in found if each.problem is not None]
    for each in ill[:_SHOWN_MAX]:
        yield fail(check, plain(f"{each.table}: {each.problem}"), plain(each.remedy or ""))
    if len(ill) > _SHOWN_MAX:
        more = f"{quantity(len(ill) - _SHOWN_MAX, f'more {noun}')} with a problem"
        yield warning(check, more, f"gapless {command} shows all")
