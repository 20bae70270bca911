"""Doctor's checks of webhooks: published events reach the endpoints."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.webhooks.ops import WebhookInfo, list_webhooks
from gapless.ops.doctor.finding import Finding, Patient, fail, few, ok, warning
from gapless.ops.text import plain, quantity


def webhooks(patient: Patient) -> Iterator[Finding]:
    """Check that a supervisor delivers, and that the endpoints take the requests."""
    found = list_webhooks(patient.conn)
    ill = [finding for each in found for finding in _of(each)]
    yield from few(ill, "gapless webhooks shows all")
    if not ill:
        yield ok("webhooks", f"{quantity(len(found), 'webhook')}, each delivered to")


def _of(each: WebhookInfo) -> Iterator[Finding]:
    if not each.is_run:
        yield fail("webhooks", f"no supervisor delivers to {each.name}", "gapless run --webhooks")
    if each.paused:
        why = f": {each.pause_reason}" if each.pause_reason else ""
        yield warning(
            "webhooks", plain(f"{each.name} is paused{why}"), f"gapless webhooks resume {each.name}"
        )
    elif each.circuit_open_since is not None:
        yield fail(
            "webhooks",
            plain(f"{each.name}: its requests fail: {each.last_error or each.pause_reason}"),
            f"gapless webhooks test {each.name}; it is tried again by itself",
        )
    if each.dead:
        yield warning(
            "webhooks",
            f"{each.name}: {quantity(each.dead, 'dead unit')}",
            f"gapless dlq list --group {each.group}; gapless dlq redrive",
        )
