"""The record of schemas: its parts for the rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from gapless.log.known import RulesReader
    from gapless.status.section import StatusSection


def _checks() -> Sequence[Check]:
    from gapless.features.schemas.checks import schemas

    return (schemas,)


def _publishing() -> RulesReader:
    from gapless.features.schemas.conform import lacks
    from gapless.features.schemas.stored import topic_schemas
    from gapless.log.known import RulesReader

    return RulesReader(topic_schemas, lacks)


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.schemas import section

    return (section.SECTION,)


SCHEMAS = Feature(
    commands={
        "schemas": Listed(
            "schemas of payloads, by topic and type: add, check, list, show, test, remove",
            "gapless.features.schemas.commands",
            routed=True,
        ),
    },
    checks=_checks,
    publishing=_publishing,
    sections=_sections,
    page="gapless.features.schemas",
    ops=("gapless.features.schemas.ops", "gapless.features.schemas.fit"),
)
