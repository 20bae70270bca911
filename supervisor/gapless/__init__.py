"""gapless: an ordered, partitioned, transactional event log inside PostgreSQL.

Publish in your own transaction:

    with gapless.connect() as conn:
        gapless.publish(conn, "orders", {"total": 5}, key="AA", event_type="order.created")

Handle each event exactly once, in order:

    @gapless.handler(topic="orders", group="billing")
    def bill(unit: gapless.Unit, conn: psycopg.Connection) -> None: ...

Names that are not listed here are not public.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gapless import feature as _door
from gapless.lazily import attributes

if TYPE_CHECKING:
    from gapless.consume.batch import Batch
    from gapless.consume.unit import Unit
    from gapless.consume.user.handler import Handler, handler
    from gapless.consume.verdict.wish import (
        DeadLetter,
        InvalidEventError,
        PayloadError,
        Retry,
        Skip,
    )
    from gapless.errors import GaplessError, PublishError, ReplyError, ResourceError, WaitError
    from gapless.features.messages.request import reply, request
    from gapless.features.scheduled.declared import schedule
    from gapless.features.scheduled.later import cancel
    from gapless.log.event import Event, NewEvent
    from gapless.log.keyed import Published
    from gapless.log.publish import publish
    from gapless.log.wait import wait_for
    from gapless.ops.find import connect
    from gapless.resources import resource

__all__ = [
    "Batch",
    "DeadLetter",
    "Event",
    "GaplessError",
    "Handler",
    "InvalidEventError",
    "NewEvent",
    "PayloadError",
    "PublishError",
    "Published",
    "ReplyError",
    "ResourceError",
    "Retry",
    "Skip",
    "Unit",
    "WaitError",
    "cancel",
    "connect",
    "handler",
    "publish",
    "reply",
    "request",
    "resource",
    "schedule",
    "wait_for",
]


def _features() -> Sequence[_door.Feature]:
    from gapless.features import FEATURES  # noqa: PLC0415 - most programs need none of them

    return FEATURES


_door.listed = _features

if not TYPE_CHECKING:
    __getattr__, __dir__ = attributes(
        __name__,
        {
            "gapless.consume.user.handler": "Handler handler",
            "gapless.features.scheduled.declared": "schedule",
            "gapless.consume.batch": "Batch",
            "gapless.consume.unit": "Unit",
            "gapless.log.wait": "wait_for",
            "gapless.consume.verdict.wish": "DeadLetter InvalidEventError PayloadError Retry Skip",
            "gapless.ops.find": "connect",
            "gapless.errors": "GaplessError PublishError ReplyError ResourceError WaitError",
            "gapless.log.event": "Event NewEvent",
            "gapless.log.keyed": "Published",
            "gapless.features.scheduled.later": "cancel",
            "gapless.log.publish": "publish",
            "gapless.features.messages.request": "reply request",
            "gapless.resources": "resource",
        },
    )
