"""The record of captured tables: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.capture.checks import captures

    return (captures,)


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.capture import section

    return (section.SECTION,)


CAPTURE = Feature(
    commands={
        "capture": Listed(
            "tables whose changes are published: add, list, mend, remove",
            "gapless.features.capture.commands",
        ),
    },
    checks=_checks,
    sections=_sections,
    ops=("gapless.features.capture.ops",),
)
