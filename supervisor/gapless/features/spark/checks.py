"""Doctor's check of pipelines: each that has events to read makes progress."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.spark.pipeline.lease import TTL_S
from gapless.features.spark.pipeline.position import PipelineStanding, list_pipelines
from gapless.ops.doctor.finding import Finding, Patient, few, ok, warning
from gapless.ops.text import plain, quantity, stamp

IDLE_S = 3600.0  # a run that ends with the events of its time may come once an hour


def pipelines(patient: Patient) -> Iterator[Finding]:
    """Check that no pipeline stands still: retention keeps the events that it has not read."""
    found = list_pipelines(patient.conn)
    ill = [finding for each in found for finding in _of(each)]
    yield from few(ill, "gapless pipeline status shows all")
    if not ill:
        yield ok("pipelines", f"{quantity(len(found), 'pipeline')}, none has failed")


def _of(each: PipelineStanding) -> Iterator[Finding]:
    name, why = plain(each.name), plain(each.error or "")
    stay = f"{quantity(each.lag, 'event')} stay for it"
    frees = f"gapless pipeline run {name}, or gapless pipeline remove {name} frees them"
    silent_s = each.silent_s or 0.0
    if each.state == "retrying" and each.failing_ts is not None:
        text = f"{name} has failed since {stamp(each.failing_ts)}, and {stay}: {why}"
        yield warning("pipelines", text, "it is tried again by itself once the reason is mended")
    elif each.state == "failed":
        yield warning("pipelines", f"{name} has failed, and {stay}: {why}", frees)
    elif each.state == "stopped" and each.lag and silent_s > IDLE_S:
        yield warning("pipelines", f"{name} is run by no instance, and {stay}", frees)
    elif each.runs and silent_s > TTL_S:
        text = f"{name}: its run at {plain(each.runner or '?')} gives no sign of life, and {stay}"
        yield warning("pipelines", text, f"gapless pipeline run {name}, elsewhere, takes over")
