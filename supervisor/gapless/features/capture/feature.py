"""The record of captured tables: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gapless.feature import Feature, Listed

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _commands() -> ModuleType:
    from gapless.features.capture import commands

    return commands


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.capture import section

    return (section.SECTION,)


CAPTURE = Feature(
    commands={
        "capture": Listed("tables whose changes are published: add, list, mend, remove", _commands),
    },
    sections=_sections,
)
