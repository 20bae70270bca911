"""Handlers that come and go while a supervisor runs, such as those of webhooks."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection

from gapless.consume.terms import agree
from gapless.worker.plan import Plan

log = logging.getLogger("gapless.supervisor")

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SourceNews:
    """Changes since the last look, by group and topic."""

    came: set[Key] = field(default_factory=set)
    gone: set[Key] = field(default_factory=set)
    replaced: set[Key] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.came or self.gone or self.replaced)

    def __str__(self) -> str:
        words = (("came", self.came), ("gone", self.gone), ("changed", self.replaced))
        return "; ".join(
            f"{word}: {', '.join(f'{group}/{topic}' for group, topic in sorted(keys))}"
            for word, keys in words
            if keys
        )


class Follower:
    """Keeps a plan's handlers in step with its source; those of the program stay as they are."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._followed: set[Key] = set()
        self._refused: set[Key] = set()

    def look(self, conn: Connection[Any]) -> SourceNews:
        """Ask the source, and change the plan. Raises psycopg.Error."""
        plan, news = self._plan, SourceNews()
        if plan.source is None:
            return news
        found = {}
        for handler in plan.source.handlers(conn):
            terms = agree(handler, plan.settings)
            assert terms.group_id is not None
            found[terms.group_id, terms.topic] = handler, terms
        for key in self._followed - found.keys():
            del plan.handlers[key], plan.terms[key]
            news.gone.add(key)
        self._followed &= found.keys()
        for key, (handler, terms) in found.items():
            if key not in self._followed and key in plan.handlers:
                self._refuse(key)
                continue
            if key not in self._followed:
                news.came.add(key)
            elif plan.handlers[key] is not handler:
                news.replaced.add(key)
            plan.handlers[key], plan.terms[key] = handler, terms
            self._followed.add(key)
        return news

    def _refuse(self, key: Key) -> None:
        if key not in self._refused:
            self._refused.add(key)
            log.error("supervisor: %s/%s: the program has a handler for it already", *key)
