"""Filters of groups: the events that they passed, and the events that they could not check."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.filters.section import UNASKED_REMEDY, Filtered
from gapless.ops.doctor.finding import Finding, Patient, few, ok, warning
from gapless.ops.text import plain, quantity


def filters(patient: Patient) -> Iterator[Finding]:
    """Report the filters: the number of events that each passed, and a failure to check one."""
    found = sorted(patient.look.of(Filtered), key=lambda each: -each.unasked)
    if not found:
        yield ok("filters", "every group takes all events")
    yield from few(map(_finding, found), "gapless status --json shows all")


def _finding(each: Filtered) -> Finding:
    if each.is_troubled:
        return warning("filters", plain(each.trouble), UNASKED_REMEDY)
    kept, passed = quantity(each.kept, "event"), f"{each.passed:,}"
    where = f"{each.group_id}/{each.topic} takes {each.takes}"
    return ok("filters", plain(f"{where}: kept {kept} and passed {passed} since it was set"))
