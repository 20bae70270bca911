"""The record of attached outboxes: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.attach.checks import attachments

    return (attachments,)


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.attach import section

    return (section.SECTION,)


ATTACH = Feature(
    commands={
        "attach": Listed(
            "outboxes that exist, as topics: add, group, switch, back, list, mend, remove",
            "gapless.features.attach.commands",
        ),
    },
    checks=_checks,
    sections=_sections,
    ops=("gapless.features.attach.ops", "gapless.features.attach.switch"),
)
