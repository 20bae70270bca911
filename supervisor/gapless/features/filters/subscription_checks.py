"""Whether groups with subscriptions take events, and whether subscriptions expire soon."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.filters.subscribed import Subscribed
from gapless.ops.doctor.finding import Finding, Patient, few, ok, warning
from gapless.ops.text import age_text, plain, quantity


def subscriptions(patient: Patient) -> Iterator[Finding]:
    """Report groups with subscriptions: those that pass all events, or lose a subscription soon."""
    found = patient.look.of(Subscribed)
    if not found:
        yield ok("subscriptions", "no group has subscriptions")
    yield from few(
        (finding for each in found for finding in _findings(each)),
        "gapless status --json shows all",
    )


def _is_troubled(each: Subscribed) -> bool:
    return not each.subscriptions or each.near > 0 or each.stopped > 0


def _findings(each: Subscribed) -> Iterator[Finding]:
    place = plain(each.name)
    if not each.subscriptions:
        remedy = f"gapless subscriptions add {place}, or gapless groups filter {place} --clear"
        yield warning("subscriptions", f"{place} has none left, and takes no event", remedy)
        return
    count = quantity(each.subscriptions, "subscription")
    said = f"{place} has {count} of {quantity(each.forms, 'form')}"
    if each.stopped:
        yield warning(
            "subscriptions",
            f"{said}; {each.stopped:,} stopped, for their SQL conditions raise or are slow, or "
            "they are webhooks that do not answer, and their events wait",
            f"gapless subscriptions list {place} says why; gapless subscriptions add {place} NAME "
            f"--condition … mends one, gapless subscriptions resume {place} NAME continues it",
        )
    if each.near:
        left = age_text(round(each.first_left_s or 0.0))
        yield warning(
            "subscriptions",
            f"{said}; {each.near:,} will be dropped unless they are renewed, the first in {left}",
            f"gapless subscriptions list {place}, gapless subscriptions renew {place} NAME",
        )
    if not _is_troubled(each):
        yield ok("subscriptions", f"{said}, {each.may_expire:,} may expire, none soon")
