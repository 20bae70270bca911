"""Publishes of several requests in one transaction: those that come while another is running.

Each request gets the same as alone: a unit, by a transaction_id of its own (I5); an answer,
after the commit of all (I2); a failure, for events that fail together are tried in halves.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from uuid import UUID, uuid4

import psycopg

from gapless.errors import ConnectError, GaplessError
from gapless.features.gateway.sessions import WAITING_REQUESTS_MAX, Sessions, too_many
from gapless.log.event import NewEvent
from gapless.log.outgoing import outgoing
from gapless.log.play import play
from gapless.log.publish import Publishing
from gapless.log.statements import script_of

EVENTS_MAX = 64
SLOW_S = 0.02  # the next transaction begins beside one that takes longer
# SQLSTATEs after which the outcome of the commit is unknown, or no transaction can succeed.
_UNSURE = ("08", "40003", "53", "57", "58")


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    event: NewEvent
    stored: asyncio.Future[UUID]

    def end(self, told: UUID | Exception) -> None:
        """Tell the request, unless it is gone."""
        if self.stored.done():
            return
        if isinstance(told, UUID):
            self.stored.set_result(told)
        else:
            self.stored.set_exception(told)


class Together:
    """Publishes plain events, one of each request.

    No request waits for company: the next transaction has all events that are there when one of its
    topic ends, or when none is running.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, list[_Waiting]] = {}  # of topics with a transaction under way
        self._running: set[asyncio.Task[None]] = set()  # keeps a reference to each task
        self._requests = 0

    async def publish(self, topic: str, event: NewEvent) -> UUID:
        """Return the event's transaction_id, once it is committed. Raises as Sessions.speak()."""
        if self._requests >= WAITING_REQUESTS_MAX:
            raise too_many()
        (traced,) = outgoing([event])  # by the trace of this request
        assert isinstance(traced, NewEvent)
        one = _Waiting(traced, self._loop.create_future())
        if topic in self._waiting:
            self._waiting[topic].append(one)
        else:
            self._waiting[topic] = [one]
            # With all requests that the loop has just read; in the context of none of them.
            self._loop.call_soon(self._begin, topic, context=Context())
        self._requests += 1
        try:
            return await one.stored
        finally:
            self._requests -= 1

    def _begin(self, topic: str) -> None:
        """Publish the waiting events; without any, the next request begins."""
        waiting = [each for each in self._waiting.pop(topic) if not each.stored.done()]
        if waiting:
            self._waiting[topic] = waiting[EVENTS_MAX:]
            running = self._loop.create_task(self._run(topic, waiting[:EVENTS_MAX]))
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    async def _run(self, topic: str, some: list[_Waiting]) -> None:
        is_slow = self._loop.call_later(SLOW_S, self._begin, topic)
        try:
            await self._store(topic, some)
        finally:
            if self._loop.time() < is_slow.when():  # else it has begun the next one, or is about to
                is_slow.cancel()
                self._begin(topic)

    async def _store(self, topic: str, some: list[_Waiting]) -> None:
        ids = [uuid4() for _ in some] if len(some) > 1 else [None]
        for each, own in zip(some, ids, strict=True):
            each.event.transaction_id = own
        events = [each.event for each in some]
        # Not by publish(): they are known to be events, and have the traces of their own requests.
        script = partial(script_of, topic, events if len(events) == 1 else iter(events), {})
        frame = Publishing(topic, events)
        try:
            stored = await self._sessions.speak(lambda conn: play(conn, script, frame))
        except Exception as error:  # noqa: BLE001 - the waiting requests answer it
            if len(some) > 1 and _is_undone(error):
                middle = len(some) // 2  # halves find a rejected event in few tries
                halves = some[:middle], some[middle:]
                await asyncio.gather(*(self._store(topic, half) for half in halves))
                return
            for each in some:
                each.end(error)
        else:
            for each, own in zip(some, ids, strict=True):
                each.end(own or stored)


def _is_undone(error: Exception) -> bool:
    """Tell whether nothing was stored for sure, and each event may succeed alone.

    MUST be false when the connection was lost: the transaction may be committed, and would be
    stored twice.
    """
    if isinstance(error, psycopg.Error):
        return not (error.sqlstate or "08").startswith(_UNSURE)
    return isinstance(error, GaplessError) and not isinstance(error, ConnectError)
