"""The record of filters and subscriptions: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _commands() -> ModuleType:
    from gapless.features.filters import commands

    return commands


def _checks() -> Sequence[Check]:
    from gapless.features.filters.checks import filters
    from gapless.features.filters.subscription_checks import subscriptions

    return (
        filters,
        subscriptions,
    )


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.filters import section, subscribed

    return (section.SECTION, subscribed.SECTION)


FILTERS = Feature(
    commands={
        "subscriptions": Listed(
            "many subscriptions in one group, whose events it takes: list, add, remove", _commands
        ),
    },
    checks=_checks,
    sections=_sections,
)
