"""The record of classic names: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.classic.checks import classic

    return (classic,)


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.classic import section

    return (section.SECTION,)


CLASSIC = Feature(
    commands={
        "classic": Listed(
            "classic tables for programs that still watch them: show, hide, notify, silence, list",
            "gapless.features.classic.commands",
        ),
    },
    checks=_checks,
    sections=_sections,
    ops=("gapless.features.classic.ops",),
)
