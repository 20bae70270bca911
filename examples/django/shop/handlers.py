"""The handlers of the shop: `manage.py gapless run` finds this module of each app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

import gapless
import gapless.django
from shop.models import Order


@dataclass
class Placed:
    """The event: an order was placed."""

    order: int
    article: str


@gapless.handler(topic="placed", group="packing", payload=Placed)
def pack(unit: gapless.Unit[Placed], conn: Connection[Any]) -> None:
    """Pack orders, exactly once; one for a missing article is set aside."""
    with gapless.django.on(conn):
        for event in unit:
            if event.payload.article == "unicorn":
                raise gapless.DeadLetter("there are no unicorns")
            Order.objects.filter(pk=event.payload.order).update(state="packed")
