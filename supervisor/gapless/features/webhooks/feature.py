"""The record of webhooks: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gapless.feature import Check, Feature, Listed, SourceOption

if TYPE_CHECKING:
    from gapless.settings import Settings
    from gapless.worker.plan import HandlerSource


def _checks() -> Sequence[Check]:
    from gapless.features.webhooks.checks import webhooks

    return (webhooks,)


def _source(settings: Settings, dsn: str) -> HandlerSource:
    from gapless.features.webhooks.ops import require_extra

    require_extra()
    from gapless.features.webhooks.fleet import Webhooks

    return Webhooks(settings, dsn)


def _settings() -> Sequence[type]:
    from gapless.features.webhooks.settings import WebhookSettings

    return (WebhookSettings,)


WEBHOOKS = Feature(
    commands={
        "webhooks": Listed(
            "endpoints that are called with events: add, list, test, pause, resume, remove",
            "gapless.features.webhooks.commands",
            routed=True,
        ),
    },
    checks=_checks,
    page="gapless.features.webhooks",
    source=SourceOption(
        option="webhooks",
        summary="deliver to the webhooks there are (gapless webhooks), and to those that come; "
        'needs "gapless[webhooks]"',
        deed="deliver to webhooks",
        make=_source,
    ),
    ops=("gapless.features.webhooks.ops",),
    settings=_settings,
)
