"""The record of filters and subscriptions: its parts for the rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.consume.read.claim import SelectiveReader
    from gapless.lease.member import ServedTopic
    from gapless.status.section import StatusSection


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


def _reader() -> SelectiveReader:
    from gapless.features.filters.reader import FilteredReader

    return FilteredReader()


def _set_filter(conn: Connection[Any], subscription: ServedTopic) -> None:
    from gapless.features.filters.stored import set_filter

    if subscription.filter is not None:
        set_filter(conn, subscription.group_id, subscription.topic, subscription.filter)


FILTERS = Feature(
    commands={
        "subscriptions": Listed(
            "many subscriptions in one group, whose events it takes: list, add, remove",
            "gapless.features.filters.commands",
            routed=True,
        ),
    },
    verbs={"groups": "gapless.features.filters.group_commands"},
    checks=_checks,
    sections=_sections,
    options=(_set_filter,),
    reader=_reader,
    page="gapless.features.filters",
    ops=(
        "gapless.features.filters.ops",
        "gapless.features.filters.subscriptions",
        "gapless.features.filters.trial",
    ),
)
