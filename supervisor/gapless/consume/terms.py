"""Terms: the agreement with one handler. The only merge of its options with the settings.

Made once, before any driver: a worker, a Spark task, a replay and gapless.testing.drain() are given
the same Terms for the same handler and settings, so none of them can forget an option.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gapless.consume.user.check import ORDERED, Mode, check_function
from gapless.consume.user.handler import Handler, require_single_units
from gapless.consume.verdict.policy import Policy
from gapless.feature import mode_of
from gapless.log.filter import Filter
from gapless.settings import Settings
from gapless.settings.sections import DeliveryMode, GroupBy, OffsetReset


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The options by which one handler is run; all are set.

    group_id, topic: those that it serves; no group: none was named, which `gapless run` refuses.
    topics: all that it serves, in order of preference; topic is the first.
    weights: in a queue, the share of its events that each of them has; none: strict preference.
    mode: whether one worker at a time has a partition, in order, or many share it ("queue").
    visibility_s: the time for which an event is reserved, in an at-least-once queue.
    workers: in a queue, the processes of one supervisor that handle its events.
    batch_size: events per claim; a claim continues to the end of its last unit, which is never cut.
    group_by: the rule by which neighbouring events become one unit.
    delivery, concurrency: the kind of calls; the number of calls at a time, at least once.
    policy: for units that fail, unless the handler raises Retry, DeadLetter or Skip.
    start: where a new group begins.
    stream_above_events: a unit with more is read in slices while the handler iterates over it.
    units_per_commit: at most N savepoints, one a unit, share a commit after a unit failed.
    auto_offset_reset: where to continue if retention dropped unhandled events; error: nowhere.
    worker: a name for people of the process that handles.
    filter: the events that the group takes; None: the handler does not say.
    """

    group_id: str | None
    topic: str
    topics: tuple[str, ...]
    weights: tuple[int, ...]
    mode: Mode
    batch_size: int
    group_by: GroupBy
    delivery: DeliveryMode
    concurrency: int
    visibility_s: float
    workers: int
    policy: Policy
    start: Literal["earliest", "latest", "latest-per-key"]
    stream_above_events: int
    units_per_commit: int
    auto_offset_reset: OffsetReset
    worker: str
    filter: Filter | None

    @property
    def is_ordered(self) -> bool:
        """Whether one worker at a time has a partition, under a lease, and keeps its order."""
        return self.mode == ORDERED


def agree(handler: Handler, settings: Settings) -> Terms:
    """Return the terms of a handler: its own options, or else the configured ones."""
    group_id, topic = serves(handler, (settings.group_id, settings.topic))
    return Terms(
        group_id=group_id,
        topic=topic,
        topics=handler.topics or (topic,),
        weights=handler.weights,
        mode=handler.mode,
        batch_size=handler.batch_size or settings.batch_size,
        group_by=handler.group_by or _group_by(handler, settings),
        delivery=handler.delivery or settings.delivery,
        concurrency=handler.concurrency or settings.concurrency,
        visibility_s=handler.visibility_s or settings.visibility_s,
        workers=settings.workers,
        policy=Policy(
            on_failure=handler.on_failure or settings.on_failure,
            retry_delays_s=_delays(handler.retry_delays_s, settings.retry_delays_s),
            crashes_max=settings.max_crashes,
            brake_keys=settings.brake_keys,
        ),
        start=handler.start,
        stream_above_events=settings.stream_above_events,
        units_per_commit=settings.max_units_per_savepoint_batch,
        auto_offset_reset=settings.auto_offset_reset,
        worker=settings.name_for_people(),
        filter=handler.filter,
    )


def serves(handler: Handler, default: tuple[str | None, str]) -> tuple[str | None, str]:
    """Return the group and the topic that a handler serves; default: those of one without."""
    group, topic = default
    return handler.group or group, handler.topic or topic


def require_fit(handler: Handler, terms: Terms) -> None:
    """Raise UsageError when the handler cannot be run by these terms."""
    if terms.delivery == "at-least-once":
        require_single_units(handler, terms.group_by)
    else:
        check_function(handler.function, terms.delivery)
    if not terms.is_ordered:
        mode_of(terms.mode).require_fit(handler, terms)


def _group_by(handler: Handler, settings: Settings) -> GroupBy:
    """Return the configured value; without an order one event is one unit, so nothing is merged."""
    return settings.group_by if handler.is_ordered else "transaction"


def _delays(own: Sequence[float] | None, configured: Sequence[float]) -> tuple[float, ...]:
    """Return the delays; a handler may choose to have none."""
    return tuple(configured if own is None else own)
