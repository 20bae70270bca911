"""What subscriptions of a group matched an event, as its handler sees it (docs/subscriptions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gapless.log.event import Event, P_co, Row


@dataclass(frozen=True, slots=True)
class MatchedSubscription:
    """A subscription that an event matched: its name in the group, and its params.

    subscription_id: its number in the database; one that is changed gets another.
    """

    subscription_id: int
    name: str
    params: Mapping[str, Any]


class MatchedEvent(Event[P_co]):
    """An event of a group with subscriptions."""

    __slots__ = ("subscriptions",)

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        row: Row,
        timeline: int,
        subscriptions: tuple[MatchedSubscription, ...],
    ) -> None:
        super().__init__(topic, partition, offset, row, timeline)
        self.subscriptions = subscriptions
