"""The user's code: a plain function that is told which topic and group it serves.

@gapless.handler(topic="orders", group="billing")
def bill(unit: Unit, conn: Connection) -> None:
    for event in unit:
        conn.execute("insert into bill ...", ...)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

from psycopg import Connection

from gapless.consume.unit import Batch, Unit
from gapless.errors import UsageError

GroupBy = Literal["transaction", "user"]
UnitFunction = Callable[[Unit, Connection[Any]], object]
BatchFunction = Callable[[Batch, Connection[Any]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A handler function with what it serves. Still callable, so that it can be tested by hand.

    batch: it takes a Batch (all units of a claim at once) instead of one Unit at a time.
    None means: as configured (groupId, batchSize, groupBy).
    """

    function: Callable[..., object]
    topic: str
    group: str | None = None
    batch: bool = False
    batch_size: int | None = None
    group_by: GroupBy | None = None
    start: Literal["earliest", "latest"] = "earliest"

    def __call__(self, work: Unit | Batch, conn: Connection[Any]) -> object:
        return self.function(work, conn)

    @property
    def name(self) -> str:
        """Where it is defined, as a reference `module:function`."""
        return f"{self.function.__module__}:{getattr(self.function, '__qualname__', '?')}"


@overload
def handler(
    *,
    topic: str,
    group: str | None = None,
    batch: Literal[False] = False,
    batch_size: int | None = None,
    group_by: GroupBy | None = None,
    start: Literal["earliest", "latest"] = "earliest",
) -> Callable[[UnitFunction], Handler]: ...
@overload
def handler(
    *,
    topic: str,
    group: str | None = None,
    batch: Literal[True],
    batch_size: int | None = None,
    group_by: GroupBy | None = None,
    start: Literal["earliest", "latest"] = "earliest",
) -> Callable[[BatchFunction], Handler]: ...
def handler(
    *,
    topic: str,
    group: str | None = None,
    batch: bool = False,
    batch_size: int | None = None,
    group_by: GroupBy | None = None,
    start: Literal["earliest", "latest"] = "earliest",
) -> Callable[[Callable[..., Any]], Handler]:
    """Make a function the handler of a topic for a consumer group.

    The function is called with a Unit (all events of one publishing transaction that share a
    partition) and the connection whose transaction also moves the group's offset: what it writes
    there commits exactly once (I6). Whatever it raises sends the whole unit to the dead letter
    queue. It must not COMMIT or ROLLBACK.

    batch: call it once per claim with a Batch of units instead.
    batch_size: events per claim (a unit is never cut); group_by "user" merges neighbouring units of
    the same (host_id, user_id); start: where a new group begins.
    """
    if group_by not in (None, "transaction", "user"):
        raise UsageError(f'handler(group_by={group_by!r}): "transaction" or "user"')
    if start not in ("earliest", "latest"):
        raise UsageError(f'handler(start={start!r}): "earliest" or "latest"')
    if batch_size is not None and batch_size < 1:
        raise UsageError(f"handler(batch_size={batch_size}): at least 1")

    def decorate(function: Callable[..., Any]) -> Handler:
        _check_function(function)
        return Handler(
            function=function,
            topic=topic,
            group=group,
            batch=batch,
            batch_size=batch_size,
            group_by=group_by,
            start=start,
        )

    return decorate


def _check_function(function: Callable[..., Any]) -> None:
    """Refuse now what would fail, or silently do nothing, at the first event."""
    if not callable(function):
        raise UsageError("@gapless.handler(...) goes above a function")
    name = getattr(function, "__qualname__", repr(function))
    for kind, is_kind in _NEVER_RUN.items():
        if is_kind(function):
            raise UsageError(f"handler {name} is {kind} function, which nobody would run: use def")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise UsageError(
            f"handler {name} is called with two arguments, the unit and the connection: {error}"
        ) from None
    except ValueError:
        return  # some built-in callables do not tell their signature


_NEVER_RUN: dict[str, Callable[[object], bool]] = {
    "an async": inspect.iscoroutinefunction,
    "a generator": inspect.isgeneratorfunction,
    "an async generator": inspect.isasyncgenfunction,
}
