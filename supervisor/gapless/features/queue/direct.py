"""Direct messages in a queue: a message to another group finishes without a call.

In an ordered group the query that reads passes it (sql/features/filters/functions/claim_kept.sql);
a queue takes ranges of the log, and gets all events of a range.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler


def addressed(handler: Handler, group_id: str) -> Handler:
    """Return a handler that is called with events for this group, and for all groups."""
    return replace(
        handler,
        function=_passing(handler.function, group_id),
        coroutine=_passing_async(handler.coroutine, group_id) if handler.coroutine else None,
    )


def is_for_another(unit: Unit, group_id: str) -> bool:
    """Tell whether the one event of a unit is a message to another group."""
    (event,) = unit
    return event.to_group is not None and event.to_group != group_id


def _passing(function: Callable[..., Any], group_id: str) -> Callable[..., Any]:
    @wraps(function)
    def call(unit: Unit, *conn: Any) -> Any:
        return None if is_for_another(unit, group_id) else function(unit, *conn)

    return call


def _passing_async(
    function: Callable[..., Awaitable[Any]], group_id: str
) -> Callable[..., Awaitable[Any]]:
    @wraps(function)
    async def call(unit: Unit, *conn: Any) -> Any:
        return None if is_for_another(unit, group_id) else await function(unit, *conn)

    return call
