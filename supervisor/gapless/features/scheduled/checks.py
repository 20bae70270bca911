"""Whether events for later get into the log when they are due."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.scheduled.section import STOPPED_REMEDY, Later, of_rows
from gapless.ops.doctor.finding import Finding, Patient, fail, few, ok, warning
from gapless.ops.text import duration, plain, quantity


def later(patient: Patient) -> Iterator[Finding]:
    """Report overdue events, events of topics that are gone, and schedules that stopped."""
    found = patient.look
    now = of_rows(found.of(Later))
    if now.is_late:
        why, remedy = "the sequencer does not get to it", "gapless run of this version does"
        if found.sequencer.state == "nobody":
            why, remedy = "no supervisor gives offsets", "start a supervisor: gapless run"
        for holder in found.obstacles:
            if holder.kind == "transaction":
                why, remedy = holder.problem, holder.remedy
        text = f"something has been due for {duration(now.late_s)}: {why}"
        yield fail("later", plain(text), plain(remedy))
    if now.strays:
        yield warning(
            "later",
            f"{quantity(now.strays, 'event')} for later are of topics that are gone",
            "gapless later lists and cancels them; once due they wait in gapless topics unrouted",
        )
    stopped = (fail("later", plain(f"schedule {each}"), STOPPED_REMEDY) for each in now.stopped)
    yield from few(stopped, "gapless schedule list shows all")
    if not (now.is_late or now.strays or now.stopped):
        waiting = quantity(now.scheduled, "event")
        yield ok(
            "later", f"{waiting} for later, {quantity(now.schedules, 'schedule')}: all in time"
        )
