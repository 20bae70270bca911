"""The record of compaction: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Duty, Feature

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.compaction.checks import compaction

    return (compaction,)


def _duties() -> Sequence[Duty]:
    from gapless.features.compaction.duty import Compactor

    return (Compactor,)


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.compaction import section

    return (section.SECTION,)


def _switch(conn: Connection[Any], topic: str, on: bool) -> bool:  # noqa: FBT001 - of the slot
    from gapless.features.compaction.latest import set_compaction

    return set_compaction(conn, topic, compact=on)


def _step(conn: Connection[Any]) -> int | None:
    from gapless.features.compaction.latest import compact

    return compact(conn)


COMPACTION = Feature(
    checks=_checks,
    duties=_duties,
    step=_step,
    switches={"compact": _switch},
    sections=_sections,
    ops=("gapless.features.compaction.latest", "gapless.features.compaction.ops"),
)
