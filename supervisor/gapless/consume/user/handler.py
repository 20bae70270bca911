"""The user's code: a plain function that is told which topic and group it serves.

@gapless.handler(topic="orders", group="billing")
def bill(unit: Unit, conn: Connection) -> None:
    for event in unit:
        conn.execute("insert into bill ...", ...)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack, get_args, overload

from psycopg import Connection

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import DeliveryMode, OnFailure
from gapless.consume.verdict.wish import seconds
from gapless.errors import UsageError
from gapless.log.schedules import Schedule

GroupBy = Literal["transaction", "user"]
Mode = Literal["ordered", "queue"]
UnitFunction = Callable[[Unit, Connection[Any]], object]
BatchFunction = Callable[[Batch, Connection[Any]], object]
CallFunction = Callable[[Unit], object]


@dataclass(slots=True)
class Habits:
    """What is learned of a handler while it runs, in this process, for all its partitions.

    publishes: it was seen to publish otherwise than by gapless.publish(), so each unit is told to
    the database before its call. defers: even at COMMIT, by a deferred trigger: one unit a commit.
    sets: it changed settings of its session, so they are put back after each call.
    interruptible: KeyboardInterrupt may be Ctrl-C; no worker hears that, there it is an error.
    """

    publishes: bool = False
    defers: bool = False
    sets: bool = False
    interruptible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A handler function with what it serves. Still callable, so that it can be tested by hand.

    topic, topics: where its events are; a queue handler may name several, in order of preference:
    topic is the first, topics are all, and empty where there is one.
    mode: "queue": any number of workers share each partition, in no order, one event a unit.
    visibility_s: seconds for which a worker of an at-least-once queue reserves an event at a time.
    batch: it takes a Batch (all units of a claim at once) instead of one Unit at a time.
    batch_size: events of a claim, 1 to 100 000. concurrency: calls at a time, 1 to 1000.
    retry_delays_s: seconds until the second, third, … attempt.
    schedule: what calls it when it is due, of @gapless.schedule.
    None means: as configured (topic, groupId, batchSize, groupBy, onFailure, …).
    """

    function: Callable[..., object]
    topic: str | None = None
    group: str | None = None
    topics: tuple[str, ...] = ()
    mode: Mode = "ordered"
    visibility_s: float | None = None
    batch: bool = False
    batch_size: int | None = None
    group_by: GroupBy | None = None
    start: Literal["earliest", "latest"] = "earliest"
    on_failure: OnFailure | None = None
    retry_delays_s: Sequence[float] | None = None
    delivery: DeliveryMode | None = None
    concurrency: int | None = None
    schedule: Schedule | None = None
    habits: Habits = field(default_factory=Habits, compare=False, repr=False)

    def __call__(self, work: Unit | Batch, *conn: Connection[Any]) -> object:
        return self.function(work, *conn)

    def scheduled_as(self, schedule: Schedule) -> Handler:
        """Return the same handler, which is called when that schedule is due."""
        return replace(self, schedule=schedule)

    @property
    def name(self) -> str:
        """Where it is defined, as a reference `module:function`."""
        return f"{self.function.__module__}:{getattr(self.function, '__qualname__', '?')}"


class Options(TypedDict, total=False):
    """What a handler may say besides its topic; each left out is as configured."""

    group: str | None
    mode: Mode
    visibility_s: float | None
    batch_size: int | None
    group_by: GroupBy | None
    start: Literal["earliest", "latest"]
    on_failure: OnFailure | None
    retry_delays_s: Sequence[float] | None
    concurrency: int | None


@overload
def handler(
    *,
    topic: str | Sequence[str] | None = None,
    batch: Literal[False] = False,
    delivery: Literal["exactly-once"] | None = None,
    **options: Unpack[Options],
) -> Callable[[UnitFunction], Handler]: ...
@overload
def handler(
    *,
    topic: str | Sequence[str] | None = None,
    batch: Literal[True],
    delivery: Literal["exactly-once"] | None = None,
    **options: Unpack[Options],
) -> Callable[[BatchFunction], Handler]: ...
@overload
def handler(
    *,
    topic: str | Sequence[str] | None = None,
    batch: Literal[False] = False,
    delivery: Literal["at-least-once"],
    **options: Unpack[Options],
) -> Callable[[CallFunction], Handler]: ...
def handler(
    *,
    topic: str | Sequence[str] | None = None,
    batch: bool = False,
    delivery: DeliveryMode | None = None,
    **options: Unpack[Options],
) -> Callable[[Callable[..., Any]], Handler]:
    """Make a function the handler of a topic (None: the configured one) for a consumer group.

    The function is called with a Unit (all events of one publishing transaction that share a
    partition) and the connection whose transaction also moves the group's offset: what it writes
    there commits exactly once (I6). It must not COMMIT or ROLLBACK. What becomes of a unit when it
    raises, on_failure says: "dead-letter", "retry" after each of retry_delays_s, "park-key" (the
    same, and later units of its keys wait behind it), or "block" (tried again in place).

    batch: call it once per claim with a Batch of units instead.
    batch_size: events per claim, 1 to 100 000 (a unit is never cut); group_by "user" merges
    neighbouring units of the same (host_id, user_id); start: where a new group begins.
    retry_delays_s: seconds, or timedeltas, until the second, third, … attempt, 0 to 366 days each.
    delivery "at-least-once": for effects outside the database. It is called with the Unit alone,
    outside any transaction, `concurrency` calls (1 to 1000) at a time, in order for each key; a
    unit that was in hand when the worker died is given to it again (`unit.attempt`,
    `unit.idempotency_key`).
    mode "queue": any number of workers share each partition, in no order (docs/queues.md). One
    event is one unit; topic may be a list, in order of preference. At least once, each event in
    hand is reserved for visibility_s (0.1 to 86 400 seconds, or a timedelta), which is renewed
    while its call is going on; it ends by itself when the worker, or its machine, is gone.
    Raises UsageError for an option that is out of its range or does not fit another one; the
    decorator raises it for a function that cannot be called so.
    """
    _check_options({**options, "delivery": delivery})
    if (delays := options.get("retry_delays_s")) is not None:
        options["retry_delays_s"] = _delays(delays)
    if (visibility := options.get("visibility_s")) is not None:
        options["visibility_s"] = checked_visibility(visibility)
    topics = checked_topics(topic, options.get("mode", "ordered"))

    def decorate(function: Callable[..., Any]) -> Handler:
        _check_function(function, delivery)
        made = Handler(
            function=function,
            topic=topics[0] if topics else None,
            topics=topics if len(topics) > 1 else (),
            batch=batch,
            delivery=delivery,
            **options,
        )
        if made.delivery == "at-least-once":
            require_single_units(made, made.group_by)
        require_queue_options(made)
        return made

    return decorate


def _check_options(options: Mapping[str, Any]) -> None:
    for name, words in _WORDS.items():
        if (word := options.get(name)) not in (None, *words):
            choice = " or ".join(f'"{each}"' for each in words)
            raise UsageError(f"handler({name}={word!r}): {choice}")
    for name, most in _MOST.items():
        number = options.get(name)
        if number is not None and not (type(number) is int and 1 <= number <= most):
            raise UsageError(f"handler({name}={number!r}): a whole number from 1 to {most}")


def _delays(delays: object) -> tuple[float, ...]:
    """Return delays in seconds; each may be a timedelta. Raises UsageError for anything else."""
    what = f"handler(retry_delays_s={str(delays)[:100]})"
    if isinstance(delays, str) or not isinstance(delays, Iterable):
        raise UsageError(f"{what}: a list of delays")
    try:
        return tuple(seconds(delay) for delay in delays)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what}: each {error}") from error


def require_single_units(handler: Handler, group_by: GroupBy | None) -> None:
    """Raise UsageError unless an at-least-once handler takes the units as they are in the log."""
    if handler.batch or group_by == "user":
        what = "batch" if handler.batch else "groupBy user"
        raise UsageError(f"{handler.name}: at-least-once delivery is by the unit, without {what}")
    _check_function(handler.function, "at-least-once")


def checked_visibility(visibility: object) -> float:
    """Return how long an event is reserved, in seconds. Raises UsageError when it is no such."""
    try:
        visibility_s = seconds(visibility)
    except (TypeError, ValueError):
        visibility_s = 0.0
    if not VISIBILITY_S_MIN <= visibility_s <= VISIBILITY_S_MAX:
        raise UsageError(
            f"handler(visibility_s={str(visibility)[:100]}): {VISIBILITY_S_MIN} to "
            f"{VISIBILITY_S_MAX} seconds, or a timedelta"
        )
    return visibility_s


def checked_topics(topic: object, mode: Mode) -> tuple[str, ...]:
    """Return the topics that a handler names. Raises UsageError for what are none."""
    if topic is None or isinstance(topic, str):
        return () if topic is None else (topic,)
    names = tuple(topic) if isinstance(topic, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"handler(topic={str(topic)[:100]}): a name, or a list of names")
    if len(set(names)) < len(names):
        raise UsageError(f"handler(topic={str(topic)[:100]}): each topic once")
    if mode != "queue" and len(names) > 1:
        raise UsageError(
            f'handler(topic={str(topic)[:100]}): several topics are for mode="queue"; write one '
            "handler for each"
        )
    return names


def require_queue_options(handler: Handler) -> None:
    """Raise UsageError for what a handler says itself and does not go with its mode."""
    name = handler.name
    if handler.mode != "queue":
        if handler.visibility_s is not None:
            raise UsageError(f'{name}: visibility_s is for mode="queue"')
        return
    if handler.batch:
        raise UsageError(f"{name}: a queue handler is called with one event, without batch=True")
    if handler.group_by is not None:
        raise UsageError(f"{name}: in a queue one event is one unit: leave group_by out")
    if handler.on_failure in NEEDS_ORDER:
        raise UsageError(
            f'{name}: a queue has no order that on_failure="{handler.on_failure}" could keep: '
            '"dead-letter" or "retry"'
        )


def _check_function(function: Callable[..., Any], delivery: DeliveryMode | None) -> None:
    """Refuse now what would fail, or silently do nothing, at the first event."""
    if not callable(function):
        raise UsageError("@gapless.handler(...) goes above a function")
    name = getattr(function, "__qualname__", repr(function))
    for kind, is_kind in _NEVER_RUN.items():
        if is_kind(function):
            raise UsageError(f"handler {name} is {kind} function, which nobody would run: use def")
    once = delivery != "at-least-once"
    arguments = (None, None) if once else (None,)
    words = "two arguments, the unit and the connection" if once else "one argument, the unit"
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        raise UsageError(f"handler {name} is called with {words}: {error}") from None
    except ValueError:
        return  # some built-in callables do not tell their signature


_WORDS: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "group_by": get_args(GroupBy),
    "start": ("earliest", "latest"),
    "on_failure": get_args(OnFailure),
    "delivery": get_args(DeliveryMode),
}
NEEDS_ORDER = ("park-key", "block")
VISIBILITY_S_MIN, VISIBILITY_S_MAX = 0.1, 86_400
_MOST = {"batch_size": 100_000, "concurrency": 1000}  # as in the configuration
_NEVER_RUN: dict[str, Callable[[object], bool]] = {
    "an async": inspect.iscoroutinefunction,
    "a generator": inspect.isgeneratorfunction,
    "an async generator": inspect.isasyncgenfunction,
}
