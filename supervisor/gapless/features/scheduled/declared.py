"""A function that is called when it is due: a schedule and a handler in one.

@gapless.schedule("0 3 * * *", zone="Europe/Berlin", publishes="reports")
def nightly(due: datetime, conn: Connection) -> object:
    return {"day": due.date()}

The schedule publishes an event into the topic `schedules`, one for each due time; the group
`schedule.nightly` handles it. So a call has the same guarantees as every handler: its effects
commit once (I6), a policy for failures, and one owner at a time (I7).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, TypedDict, Unpack, get_args

from psycopg import AsyncConnection, Connection

from gapless.consume.unit import Unit
from gapless.consume.user.awaited import awaited, is_async
from gapless.consume.user.handler import Handler, handler
from gapless.errors import UsageError
from gapless.features.scheduled.cron import check_cron
from gapless.features.scheduled.schedules import TOPIC, Missed, Schedule
from gapless.log.publish import publish
from gapless.resources import Resource
from gapless.settings.sections import OnFailure

DueFunction = (
    Callable[[datetime, Connection[Any]], object]
    | Callable[[datetime, AsyncConnection[Any]], Awaitable[object]]
)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)


class ScheduleOptions(TypedDict, total=False):
    """The options of a scheduled function about failures and resources; as for a handler."""

    on_failure: OnFailure | None
    retry_delays_s: Any
    resources: Sequence[Resource[Any]]


def schedule(
    cron: str | None = None,
    /,
    *,
    every: str | timedelta | None = None,
    zone: str = "UTC",
    name: str | None = None,
    publishes: str | None = None,
    missed: Missed = "once",
    **options: Unpack[ScheduleOptions],
) -> Callable[[DueFunction], Handler]:
    """Call a function when it is due, exactly once for each due time.

    Its arguments are the due time (UTC) and the connection whose transaction commits its effects
    (for an `async def` function: an AsyncConnection); it must not COMMIT. `gapless run` adds the
    schedule to the database, and calls the function on one of its workers.

    cron: five fields (minute, hour, day of month, month, day of week), or "@daily" and the like.
    every: a timedelta, or an interval of the database as "15 minutes", "1 day"; 1 second or more.
    zone: the time zone by name, as "Europe/Berlin". name: of the schedule; default the function's.
    publishes: a topic for the results: each is published there in the same transaction, as
    publish() takes it (a payload, a NewEvent, several); None publishes nothing.
    missed: for due times that passed while nothing ran: "once" (one call), "all" (a call each),
    "skip" (no call for a due time that is more than a minute ago).
    on_failure, retry_delays_s, resources: as in handler().
    Raises UsageError for options that do not fit, and, in the decorator, for a function with other
    arguments; an unknown zone, and a cron text that never fires, are refused when the schedule is
    added to the database.
    """
    _check_rhythm(cron, every, zone, missed)

    def decorate(function: DueFunction) -> Handler:
        own_name = name if name is not None else getattr(function, "__name__", "?")
        if not isinstance(own_name, str) or not _NAME.fullmatch(own_name):
            raise UsageError(
                f"schedule(name={own_name!r}): 1 to 200 letters, digits, dots, dashes, underscores"
            )
        _check_function(function, own_name)
        declared = Schedule(
            name=own_name,
            topic=TOPIC,
            cron=cron,
            every=_interval(every),
            zone=zone,
            missed=missed,
        )
        made = handler(topic=TOPIC, group=f"schedule.{own_name}", **options)(
            _called_when_due(function, own_name, publishes)
        )
        return replace(made, declares=declared)

    return decorate


def _called_when_due(
    function: DueFunction, name: str, publishes: str | None
) -> Callable[..., object]:
    """Return a handler of the topic of all schedules that handles the events of this one."""

    @wraps(function)
    def handle(unit: Unit, conn: Connection[Any]) -> None:
        for due in _due_in(unit, name):
            result = function(due, conn)  # type: ignore[arg-type]  # it is no async one
            if publishes is not None and result is not None:
                publish(conn, publishes, result)

    @wraps(function)
    async def handle_async(unit: Unit, conn: AsyncConnection[Any]) -> None:
        for due in _due_in(unit, name):
            result = await awaited(function, due, conn)
            if publishes is not None and result is not None:
                await publish(conn, publishes, result)

    made = handle_async if is_async(function) else handle
    del made.__wrapped__  # it has arguments of its own
    return made


def _due_in(unit: Unit, name: str) -> Iterator[datetime]:
    """Yield the due times of one schedule."""
    for event in unit:
        if event.headers.get("gapless-schedule") == name:
            yield datetime.fromisoformat(event.headers["gapless-due"])


def _check_rhythm(cron: object, every: object, zone: object, missed: object) -> None:
    if (cron is None) == (every is None):
        raise UsageError('schedule(): give a cron text or every="15 minutes", and not both')
    if not (cron is None or isinstance(cron, str)):
        raise UsageError(f"schedule({cron!r}): a cron text, such as '0 3 * * *'")
    if cron is not None:
        check_cron(cron)
    elif not isinstance(every, str | timedelta):
        raise UsageError(f"schedule(every={every!r}): a timedelta, or a text such as '15 minutes'")
    if not isinstance(zone, str):
        raise UsageError(f"schedule(zone={zone!r}): a name, such as 'Europe/Berlin'")
    if missed not in get_args(Missed):
        raise UsageError(f"schedule(missed={missed!r}): {' or '.join(get_args(Missed))}")


def _interval(every: str | timedelta | None) -> str | None:
    return f"{every.total_seconds():.6f} s" if isinstance(every, timedelta) else every


def _check_function(function: object, name: str) -> None:
    if not callable(function):
        raise UsageError("@gapless.schedule(...) goes above a function")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        words = "two arguments, the due time and the connection"
        raise UsageError(f"schedule {name} is called with {words}: {error}") from None
    except ValueError:
        return  # some built-in callables do not tell their signature
