"""Subscriptions of a group by the contents of payloads, and a handler that notes matches."""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from support.world import Group, make_handler

CUSTOMER = {"customer": "$.customer_id"}


def subscribe(group: Group, name: str, params: dict[str, Any], **more: Any) -> bool:
    """Subscribe in the group; match: by the customer by default."""
    return bool(
        group.world.value(
            "select gapless.subscribe(%s, %s, %s, %s, %s, %s)",
            group.name, group.world.topic.name, name,
            Jsonb(more.get("match", CUSTOMER)), Jsonb(params), more.get("where"),
        )
    )  # fmt: skip


def unsubscribe(group: Group, name: str) -> bool:
    ask = "select gapless.unsubscribe(%s, %s, %s)"
    return bool(group.world.value(ask, group.name, group.world.topic.name, name))


class Seen:
    """A handler that notes for each event the subscriptions that it matched."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.events: list[tuple[int, list[str]]] = []
        self.units: list[list[str]] = []

    @property
    def handler(self) -> Handler:
        def take(unit: Unit, conn: psycopg.Connection[Any]) -> None:
            self.units.append([each.name for each in unit.subscriptions])
            for event in unit:
                self.events.append((event.offset, [each.name for each in event.subscriptions]))
            self.group.effect(unit, conn)
            self.group.refuse(unit)

        return make_handler(take)
