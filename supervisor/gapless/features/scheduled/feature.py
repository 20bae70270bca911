"""The record of events for later and schedules: its parts for the rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from gapless.features.scheduled.later import Promoter
    from gapless.settings.declared import NamedSection
    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.scheduled.checks import later

    return (later,)


def _promoting() -> Promoter:
    from gapless.features.scheduled.later import Promoter

    return Promoter()


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.scheduled import section

    return (section.SECTION,)


def _nested() -> Sequence[NamedSection]:
    from gapless.features.scheduled.settings import SCHEDULES

    return (SCHEDULES,)


SCHEDULED = Feature(
    commands={
        "later": Listed(
            "list the events that wait for their time, cancel them",
            "gapless.features.scheduled.commands",
        ),
        "schedule": Listed(
            "publish again and again: add, list, pause, resume, remove, run schedules",
            "gapless.features.scheduled.schedule_commands",
            routed=True,
        ),
    },
    checks=_checks,
    page="gapless.features.scheduled",
    promoting=_promoting,
    topics=("schedules",),
    sections=_sections,
    ops=(
        "gapless.features.scheduled.later",
        "gapless.features.scheduled.ops",
        "gapless.features.scheduled.schedule_ops",
        "gapless.features.scheduled.schedules",
    ),
    nested=_nested,
)
