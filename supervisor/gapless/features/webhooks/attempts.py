"""The attempts of one process: each request with its answer, until the database has recorded it."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Iterable
from time import monotonic
from typing import NamedTuple

from gapless.features.webhooks.kept import ANSWER_TEXT_CHARACTERS, EndpointAnswer
from gapless.features.webhooks.post import UnansweredError
from gapless.ops.text import plain

UNRECORDED_MAX = 10_000  # of a process: while the database is away, the oldest ones are forgotten


class Sent(NamedTuple):
    """A request. partition, offset, event_type: of its first event; None: it has no events.

    at_s: its time, in seconds since 1970. attempt: of the unit; None where there is no unit.
    """

    name: str
    at_s: float
    partition: int | None = None
    offset: int | None = None
    event_type: str | None = None
    attempt: int | None = None


class Attempt(NamedTuple):
    """A request and its end. status: None without an answer; answer: its text, or the error."""

    sent: Sent
    took_ms: float
    status: int | None
    answer: str | None


class AttemptLog:
    """Attempts that are not recorded yet; in one event loop. each_max: of a webhook."""

    def __init__(self, each_max: int) -> None:
        self.each_max = each_max
        self._attempts: deque[Attempt] = deque(maxlen=UNRECORDED_MAX if each_max else 0)

    def __len__(self) -> int:
        return len(self._attempts)

    async def watch(self, asked: Awaitable[EndpointAnswer], sent: Sent) -> EndpointAnswer:
        """Return the answer of a request, and log it; an error is logged, and raised."""
        began_s = monotonic()
        try:
            answer = await asked
        except UnansweredError as error:
            self._add(sent, began_s, None, str(error))
            raise
        except asyncio.CancelledError:
            self._add(sent, began_s, None, "broken off before its answer")
            raise
        self._add(sent, began_s, answer.status, answer.text)
        return answer

    def _add(self, sent: Sent, began_s: float, status: int | None, answer: str) -> None:
        took_ms = (monotonic() - began_s) * 1000
        text = plain(" ".join(answer.split()))[:ANSWER_TEXT_CHARACTERS] if answer else None
        self._attempts.append(Attempt(sent, took_ms, status, text))

    def take(self) -> list[Attempt]:
        """Return the attempts, oldest first, each_max of a webhook at most; forget all."""
        taken: list[Attempt] = []
        counts: Counter[str] = Counter()
        while self._attempts:
            each = self._attempts.pop()
            counts[each.sent.name] += 1
            if counts[each.sent.name] <= self.each_max:
                taken.append(each)
        return taken[::-1]

    def give_back(self, attempts: Iterable[Attempt]) -> None:
        """Log attempts again that could not be recorded, before newer ones."""
        self._attempts = deque([*attempts, *self._attempts], self._attempts.maxlen)


def said_of(attempts: list[Attempt], each_max: int) -> dict[str, object]:
    """Return the parameters of the queries that record attempts."""
    sent = [each.sent for each in attempts]
    return {
        "each_max": each_max,
        "of": [each.name for each in sent],
        "at_s": [each.at_s for each in sent],
        "partitions": [each.partition for each in sent],
        "offsets": [each.offset for each in sent],
        "types": [each.event_type for each in sent],
        "attempts": [each.attempt for each in sent],
        "took_ms": [each.took_ms for each in attempts],
        "statuses": [each.status for each in attempts],
        "answers": [each.answer for each in attempts],
    }
