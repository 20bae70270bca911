"""The plan of a supervisor: the handler and the terms of each group and topic that it serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from psycopg import Connection

from gapless.consume.terms import Terms, agree, require_fit
from gapless.consume.user.handler import Handler
from gapless.errors import UsageError
from gapless.feature import Declaration
from gapless.settings import Settings


class HandlerSource(Protocol):
    """A source of handlers that come and go while a supervisor runs."""

    def handlers(self, conn: Connection[Any], /) -> Sequence[Handler]:
        """Return all current handlers; an unchanged one is the same object as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A supervisor's work: settings, DSN, handlers and their terms by (group, topic).

    asks_partitions: totalPartitions was given, so a topic with another number is refused, and the
    topic of the configuration is created if it does not exist.
    source: of handlers that come and go while it runs; the plan includes them too (follow.py).
    declared: by handlers and the configuration; made known before the supervisor joins.
    """

    settings: Settings
    dsn: str
    handlers: dict[tuple[str, str], Handler]
    terms: dict[tuple[str, str], Terms]
    asks_partitions: bool = True
    declared: tuple[Declaration, ...] = ()
    source: HandlerSource | None = None

    @property
    def unleased(self) -> list[tuple[str, Handler, Terms]]:
        """The handlers whose workers need no lease, each once, with its group."""
        return [
            (group, self.handlers[group, topic], terms)
            for (group, topic), terms in self.terms.items()
            if not terms.is_ordered and topic == terms.topic
        ]

    def makes(self, topic: str) -> bool:
        """Tell whether to create a topic that does not exist."""
        settings = self.settings
        return settings.create_topics or (self.asks_partitions and topic == settings.topic)


def make_plan(
    settings: Settings,
    dsn: str,
    handlers: Sequence[Handler],
    *,
    asks_partitions: bool = True,
    declared: Sequence[Declaration] = (),
    source: HandlerSource | None = None,
) -> Plan:
    """Settle the handler of each group and topic.

    asks_partitions: refuse a topic with another number than total_partitions, and create the topic
    of the settings if it does not exist.
    declared: made known at the start, in addition to the declarations of the handlers.
    source: of handlers that come and go; with a source there may be none at the start.

    Raises UsageError for a handler without a group, two for the same group and topic, or one that
    keeps the order of a group's events and one that does not.
    """
    chosen: dict[tuple[str, str], Handler] = {}
    terms: dict[tuple[str, str], Terms] = {}
    for handler in handlers:
        agreed = agree(handler, settings)
        require_fit(handler, agreed)
        group = agreed.group_id
        if group is None:
            raise UsageError(
                f"{handler.name} names no group: write @gapless.handler(group=…) or set groupId"
            )
        for topic in agreed.topics:
            if (group, topic) in chosen:
                raise UsageError(
                    f"{handler.name} and {chosen[group, topic].name} both serve topic "
                    f'"{topic}" for group "{group}"; one handler each'
                )
            chosen[group, topic] = handler
            terms[group, topic] = agreed
    _require_one_mode(chosen)
    if not chosen and source is None:
        raise UsageError("there is no handler to run")
    return Plan(
        settings=settings,
        dsn=dsn,
        handlers=chosen,
        terms=terms,
        asks_partitions=asks_partitions,
        declared=(*declared, *(each.declares for each in handlers if each.declares)),
        source=source,
    )


def _require_one_mode(handlers: Mapping[tuple[str, str], Handler]) -> None:
    """Raise UsageError for a group with a handler that keeps its order and one that does not."""
    first: dict[str, Handler] = {}
    for (group, _), handler in handlers.items():
        other = first.setdefault(group, handler)
        if other.mode != handler.mode:
            ordered, queue = (handler, other) if handler.is_ordered else (other, handler)
            raise UsageError(
                f'group "{group}" is a queue for {queue.name}, and keeps the order of its events '
                f"for {ordered.name}: give one of them another group"
            )
