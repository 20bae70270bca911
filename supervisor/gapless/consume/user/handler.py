"""The user's code: a function, plain or async, and the topic and group that it serves.

@gapless.handler(topic="orders", group="billing")
def bill(unit: Unit, conn: Connection) -> None:
    for event in unit:
        conn.execute("insert into bill ...", ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack, overload

from psycopg import AsyncConnection, Connection

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.user.awaited import in_loop, is_async
from gapless.consume.user.check import (
    ORDERED,
    Mode,
    ServedTopics,
    check_function,
    check_names,
    check_options,
    delays_of,
    topics_of,
    visibility_of,
    weights_of,
)
from gapless.consume.user.guard import Guard, unguarded
from gapless.consume.user.signature import BatchFunction, CallFunction, Payload, T, UnitFunction
from gapless.consume.user.typed import typed
from gapless.errors import UsageError
from gapless.feature import Declaration, mode_of
from gapless.log.filter import Filter, filter_of
from gapless.log.typed import decoder_of
from gapless.resources import Resource
from gapless.settings.sections import DeliveryMode, GroupBy, OnFailure


@dataclass(slots=True)
class ObservedHandler:
    """The facts learned about a handler while it runs, in this process, for all its partitions.

    publishes: it was seen to publish without gapless.publish(), so the database is told each unit
    before its call. defers: even at COMMIT, by a deferred trigger: one unit a commit.
    sets: it changed settings of its session, so they are put back after each call.
    interruptible: KeyboardInterrupt may be Ctrl-C; in a worker it never is, and counts as an error.
    """

    publishes: bool = False
    defers: bool = False
    sets: bool = False
    interruptible: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A handler function and its options. Still callable, so that it can be tested by hand.

    function: as the step calls it; coroutine: of an async handler, the function that it awaits.
    topic, topics: the source of its events; a queue handler may name several, by preference: topic
    is the first, topics are all; topics is empty for a single one. weights: events of each, in N.
    mode: "queue": any number of workers share each partition, in no order, one event a unit.
    visibility_s: seconds for which a worker of an at-least-once queue reserves an event at a time.
    batch: it takes a Batch (all units of a claim at once) instead of one Unit at a time.
    batch_size: events of a claim, 1 to 100 000. concurrency: calls at a time, 1 to 1000.
    retry_delays_s: seconds until the second, third, … attempt.
    resources: opened in each worker before its first unit, closed at its end.
    declares: made known before it runs, such as the schedule of @gapless.schedule.
    filter: the events of its group. guard: keeps events that fit no schema from the function.
    asides_beside: units that were set aside are called beside those of the log.
    None means: as configured (topic, groupId, batchSize, groupBy, onFailure, …).
    """

    function: Callable[..., object]
    topic: str | None = None
    group: str | None = None
    topics: tuple[str, ...] = ()
    weights: tuple[int, ...] = ()
    mode: Mode = ORDERED
    visibility_s: float | None = None
    batch: bool = False
    batch_size: int | None = None
    group_by: GroupBy | None = None
    start: Literal["earliest", "latest", "latest-per-key"] = "earliest"
    on_failure: OnFailure | None = None
    retry_delays_s: Sequence[float] | None = None
    delivery: DeliveryMode | None = None
    concurrency: int | None = None
    resources: Sequence[Resource[Any]] = ()
    coroutine: Callable[..., Any] | None = None
    declares: Declaration | None = None
    filter: Filter | None = None
    asides_beside: bool = False
    guard: Guard | None = field(default=None, compare=False, repr=False)
    habits: ObservedHandler = field(default_factory=ObservedHandler, compare=False, repr=False)

    def __call__(self, work: Unit | Batch, *conn: Connection[Any] | AsyncConnection[Any]) -> Any:
        """Call it by hand; with an AsyncConnection if it is async, and then await the result."""
        return (self.coroutine or self.function)(work, *conn)

    @property
    def is_ordered(self) -> bool:
        """Whether one worker at a time has a partition, under a lease, and keeps its order."""
        return self.mode == ORDERED

    @property
    def name(self) -> str:
        """The place of its definition, as a reference `module:function`."""
        return f"{self.function.__module__}:{getattr(self.function, '__qualname__', '?')}"


class Options(TypedDict, total=False):
    """The options of a handler besides its topic; one that is left out is as configured."""

    group: str | None
    mode: Mode
    visibility_s: float | None
    batch_size: int | None
    group_by: GroupBy | None
    start: Literal["earliest", "latest", "latest-per-key"]
    on_failure: OnFailure | None
    retry_delays_s: Sequence[float] | None
    concurrency: int | None
    resources: Sequence[Resource[Any]]
    event_types: Sequence[str] | None
    where: str | None
    params: Mapping[str, Any] | None
    on_invalid: Literal["dead-letter"] | None


@overload
def handler(
    *,
    topic: ServedTopics | None = None,
    batch: Literal[False] = False,
    delivery: Literal["exactly-once"] | None = None,
    **options: Unpack[Options],
) -> Callable[[UnitFunction[Any]], Handler]: ...
@overload
def handler(
    *,
    topic: ServedTopics | None = None,
    batch: Literal[True],
    delivery: Literal["exactly-once"] | None = None,
    **options: Unpack[Options],
) -> Callable[[BatchFunction[Any]], Handler]: ...
@overload
def handler(
    *,
    topic: ServedTopics | None = None,
    batch: Literal[False] = False,
    delivery: Literal["at-least-once"],
    **options: Unpack[Options],
) -> Callable[[CallFunction[Any]], Handler]: ...
@overload
def handler(
    *,
    topic: ServedTopics | None = None,
    payload: Payload[T],
    batch: Literal[False] = False,
    delivery: Literal["exactly-once"] | None = None,
    **options: Unpack[Options],
) -> Callable[[UnitFunction[T]], Handler]: ...
@overload
def handler(
    *,
    topic: ServedTopics | None = None,
    payload: Payload[T],
    batch: Literal[True],
    delivery: Literal["exactly-once"] | None = None,
    **options: Unpack[Options],
) -> Callable[[BatchFunction[T]], Handler]: ...
@overload
def handler(
    *,
    topic: ServedTopics | None = None,
    payload: Payload[T],
    batch: Literal[False] = False,
    delivery: Literal["at-least-once"],
    **options: Unpack[Options],
) -> Callable[[CallFunction[T]], Handler]: ...
def handler(
    *bare: object,
    topic: ServedTopics | None = None,
    payload: Any = None,
    batch: bool = False,
    delivery: DeliveryMode | None = None,
    **options: Unpack[Options],
) -> Callable[[Callable[..., Any]], Handler]:
    """Make a function the handler of a topic (None: the configured one) for a consumer group.

    The function is called with a Unit (all events of one publishing transaction that share a
    partition) and the connection whose transaction also moves the group's offset: its writes there
    commit exactly once (I6). It must not COMMIT or ROLLBACK. If it raises, on_failure decides about
    the unit: "dead-letter", "retry" after each of retry_delays_s, "park-key" (the same, and later
    units of its keys wait behind it), or "block" (tried again in place).

    An `async def` function is awaited in the worker's own event loop; its connection is an
    AsyncConnection of the same session, with the same guarantees.
    payload: a dataclass, a model of pydantic, a struct of msgspec (or a TypeAdapter, a Decoder):
    then `event.payload` is a value of it, and an event that does not decode becomes a dead letter.
    resources: opened once in each worker, before its first unit (gapless.resource).
    batch: call it once per claim with a Batch of units instead.
    batch_size: events per claim, 1 to 100 000 (a unit is never cut); group_by "user" merges
    neighbouring units of the same (host_id, user_id); start: where a new group begins.
    retry_delays_s: seconds, or timedeltas, until the second, third, … attempt, 0 to 366 days each.
    delivery "at-least-once": for effects outside the database. It is called with the Unit alone,
    outside any transaction, `concurrency` calls (1 to 1000) at a time, in order for each key; a
    unit that was in hand when the worker died is given to it again (`unit.attempt`,
    `unit.idempotency_key`). The setting `delivery` decides about a handler that says nothing.
    mode "queue": any number of workers share each partition, in no order (docs/use/queue.md). One
    event is one unit; topic may be a list, in order of preference, or give shares from 1 to 1000:
    {"urgent": 8, "mails": 1}. At least once, each event in hand is reserved for visibility_s (0.1
    to 86 400 s, or a timedelta), renewed until its call ends or its worker is gone.
    event_types, where, params: the events that the group takes; its offset passes all others, which
    are neither sent nor handled (docs/use/filters.md). Types, in which * stands for any characters;
    a jsonpath predicate over the payload, "$.total > $min", and {"min": 100} for its variables.
    on_invalid "dead-letter": a unit with an event that fits no version of its schema goes to the
    dead letters, and the function does not see it (docs/use/schemas.md).
    Raises UsageError for an option that is out of its range or does not fit another one; the
    decorator raises it for a function with an unsuitable signature.
    """
    if bare:
        raise UsageError(
            '@gapless.handler takes names: write @gapless.handler(topic="…", group="…")'
        )
    check_options({**options, "delivery": delivery, "batch": batch})
    check_names(options, Options.__annotations__)
    if (delays := options.get("retry_delays_s")) is not None:
        options["retry_delays_s"] = delays_of(delays)
    if (visibility := options.get("visibility_s")) is not None:
        options["visibility_s"] = visibility_of(visibility)
    options["resources"] = tuple(options.get("resources") or ())  # hashable, as the others
    said: dict[str, Any] = dict(options)
    takes = filter_of(*(said.pop(name, None) for name in ("event_types", "where", "params")))
    topics = topics_of(topic, options.get("mode", ORDERED))
    decoder = None if payload is None else decoder_of(payload)
    guard = None if said.pop("on_invalid", None) is None else Guard()
    before = unguarded if guard is None else guard.before

    def decorate(function: Callable[..., Any]) -> Handler:
        check_function(function, delivery or ("exactly-once" if batch else None))
        called = function if decoder is None else typed(function, decoder)
        waits = is_async(function)
        made = Handler(
            function=before(in_loop(called) if waits else called),
            coroutine=before(called) if waits else None,
            topic=topics[0] if topics else None,
            topics=topics if len(topics) > 1 else (),
            weights=weights_of(topic, topics),
            batch=batch,
            delivery=delivery,
            filter=takes,
            guard=guard,
            **said,
        )
        if made.delivery == "at-least-once":
            require_single_units(made, made.group_by)
        if not made.is_ordered:
            mode_of(made.mode).require_options(made)
        elif made.visibility_s is not None:
            raise UsageError(f'{made.name}: visibility_s is for mode="queue"')
        return made

    return decorate


def require_single_units(handler: Handler, group_by: GroupBy | None) -> None:
    """Raise UsageError unless an at-least-once handler takes the units as they are in the log."""
    if handler.batch or group_by == "user":
        what = "batch" if handler.batch else "groupBy user"
        raise UsageError(f"{handler.name}: at-least-once delivery is by the unit, without {what}")
    check_function(handler.function, "at-least-once")
