"""Deliver the units of a group whose subscriptions are webhooks: each to the webhooks it matched.

An endpoint that fails fails for itself alone (PartlyFailedError). An endpoint whose circuit opens
is stopped, in the database: its events wait in the log, and cost nothing, until a probe succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

import psycopg

from gapless.consume.unit import Unit
from gapless.consume.verdict.failure import PartlyFailedError
from gapless.consume.verdict.wish import DeadLetter, Postponed
from gapless.errors import one_line
from gapless.features.webhooks.attempts import AttemptLog, Sent
from gapless.features.webhooks.body import BODY_BYTES_MAX, body_of
from gapless.features.webhooks.driver import LOOK_S, DeliveryTally
from gapless.features.webhooks.line import AT_A_TIME, EndpointLine, Places, StopWebhookError
from gapless.features.webhooks.pace import PROBE_EVERY_S
from gapless.features.webhooks.post import Poster
from gapless.features.webhooks.record import SharedEndpoint, SharedWebhooks
from gapless.features.webhooks.shared_desk import SharedWebhookDriver
from gapless.features.webhooks.sign import message_id
from gapless.features.webhooks.trial import trial_request

if TYPE_CHECKING:
    from gapless.features.webhooks.deliver import DeliverySettings
    from gapless.log.event import Event

log = logging.getLogger("gapless.worker")

STOPPED_RETRY_S = 600.0  # it is due at once when the webhook is resumed (continue_webhook.sql)
KEPT_MANY = 200  # with more endpoints than this no connection is kept


class SharedDelivery:
    """The webhooks of one topic that share a group, in one process; in one event loop."""

    def __init__(self, means: DeliverySettings, webhooks: SharedWebhooks) -> None:
        self._means = means
        self._webhooks = webhooks
        self._desk = SharedWebhookDriver(
            means.dsn, webhooks, means.connect_timeout_s, AttemptLog(means.attempts_max)
        )
        self._lines: dict[str, EndpointLine] = {}
        self._places: Places | None = None
        self._looking: asyncio.Lock | None = None
        self._looked_s = 0.0

    async def open(self) -> AsyncIterator[None]:
        """Look, record and probe every few seconds, until it is closed (a resource)."""
        self._places, self._looking = Places(), asyncio.Lock()
        task = asyncio.create_task(self._keep_looking())
        try:
            yield
        finally:
            task.cancel()
            with suppress(psycopg.Error):
                await self._note()
            await self._desk.close()
            for line in self._lines.values():
                await line.close()

    async def deliver(self, unit: Unit) -> None:
        """Send a unit to its webhooks. Raises PartlyFailedError for those that did not take it.

        Raises psycopg.Error when the database cannot say which ones match.
        """
        events = events_of(unit)
        wanted: dict[int, tuple[str, list[Event]]] = {}
        for event in events:
            for each in event.subscriptions:
                wanted.setdefault(each.subscription_id, (each.name, []))[1].append(event)
        if any(name not in self._lines for name, _ in wanted.values()):
            await self._look(since_s=monotonic())
        resting = await self._resting(unit, wanted)
        bodies: dict[tuple[int, ...], bytes] = {}  # many webhooks get the same body
        sends = {
            number: self._send(unit, name, some, bodies)
            for number, (name, some) in wanted.items()
            if number not in resting
        }
        ends = await asyncio.gather(*sends.values(), return_exceptions=True)
        failed = {n: end for n, end in zip(sends, ends, strict=True) if end is not None}
        ended = resting | failed | await self._stop(unit, wanted, failed)
        failed = {n: end for n, end in ended.items() if end is not None}
        if failed:
            raise PartlyFailedError(worst(list(failed.values())), failed)

    async def _resting(
        self, unit: Unit, wanted: Mapping[int, tuple[str, object]]
    ) -> dict[int, BaseException | None]:
        """Return the stopped webhooks: None for those whose events wait in the log.

        The database is asked after this unit was claimed: a webhook that is resumed later than that
        takes the fence away, so that this unit is not finished without it.
        """
        lines = {number: self._lines.get(name) for number, (name, _) in wanted.items()}
        stopped = [n for n, line in lines.items() if line is not None and line.endpoint.is_stopped]
        if not stopped:
            return {}
        places = await self._desk.stopped_at(stopped, unit.partition)
        if len(places) < len(stopped):
            await self._look(since_s=monotonic())
            # Webhooks that are still stopped elsewhere: the partition is new.
            new = {n for n in stopped if n not in places and self._is_stopped(wanted[n][0])}
            for number in new:
                await self._desk.set_apart(wanted[number][0], "it is stopped", tries=True)
            places |= await self._desk.stopped_at(new, unit.partition)
        return {number: _waits(unit, place, "it is stopped") for number, place in places.items()}

    def _is_stopped(self, name: str) -> bool:
        line = self._lines.get(name)
        return line is not None and line.endpoint.is_stopped

    async def _send(
        self, unit: Unit, name: str, some: Sequence[Event], bodies: dict[tuple[int, ...], bytes]
    ) -> None:
        line = self._lines.get(name)
        if line is None:
            return  # the webhook was removed
        assert self._places is not None
        place = tuple(event.offset for event in some)
        body = bodies[place] = bodies.get(place) or body_of(unit, some)
        key = message_id(f"{unit.idempotency_key}/{name}")
        await line.send(
            self._places,
            key,
            body,
            share=self._desk.workers,
            sent=Sent(
                name,
                self._desk.now_s(),
                unit.partition,
                some[0].offset,
                some[0].event_type,
                unit.attempt,
            ),
        )

    async def _stop(
        self,
        unit: Unit,
        wanted: Mapping[int, tuple[str, object]],
        failed: Mapping[int, BaseException],
    ) -> dict[int, BaseException | None]:
        """Stop the webhooks whose error says so; return the unit's error for each, or None."""
        ends: dict[int, BaseException | None] = {}
        for number, error in failed.items():
            if isinstance(error, StopWebhookError):
                name = wanted[number][0]
                log.error("webhook %s: is stopped: %s", name, error.reason)
                await self._desk.set_apart(name, error.reason, tries=error.tries)
                await self._look(since_s=monotonic())
                places = await self._desk.stopped_at([number], unit.partition)
                ends[number] = _waits(unit, places.get(number), f"{name}: {error.reason}")
        return ends

    # -- the endpoints' states --------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self._look(since_s=monotonic())
                await self._note()
                await self._probe()
            except Exception as error:  # noqa: BLE001 - after any error, the next look comes
                log.warning(
                    "webhooks of %s: looked later: %s", self._webhooks.topic, one_line(error)
                )
            await asyncio.sleep(LOOK_S)

    async def _look(self, *, since_s: float) -> None:
        """Read the present state of the webhooks, unless that was done since since_s."""
        assert self._looking is not None
        async with self._looking:
            if self._looked_s > since_s:
                return
            began_s = monotonic()
            found = {each.name: each for each in await self._desk.look_at_all(PROBE_EVERY_S)}
            for name in self._lines.keys() - found.keys():
                await self._lines.pop(name).close()
            kept = 1 if len(found) <= KEPT_MANY else 0
            for name, each in found.items():
                await self._adopt(name, each, kept)
            self._looked_s = began_s

    async def _adopt(self, name: str, found: SharedEndpoint, kept: int) -> None:
        line = self._lines.get(name)
        before = None if line is None else line.endpoint
        if before is not None and (before.url, before.allow_http) == (found.url, found.allow_http):
            assert line is not None
            line.adopt(found)
            return
        if line is not None:
            await line.close()
        means = self._means
        self._lines[name] = EndpointLine(
            found, lambda to: Poster(to, means.allowed, means.tls, kept), self._desk.attempts
        )

    async def _note(self) -> None:
        """Record the results of requests."""
        tallies = {n: line.tally for n, line in self._lines.items() if line.tally.has_news}
        attempts = self._desk.attempts.take()
        if not (tallies or attempts):
            return
        for name in tallies:
            self._lines[name].tally = DeliveryTally()
        try:
            await self._desk.note_all(tallies, attempts)
        except psycopg.Error:
            self._desk.attempts.give_back(attempts)
            for name in tallies.keys() & self._lines.keys():
                self._lines[name].tally.add(tallies[name])
            raise

    async def _probe(self) -> None:
        """Try the webhooks whose circuit is open, and let those continue that answer."""
        due = [line for line in self._lines.values() if line.endpoint.probe_due]
        names: list[str] = []
        for at in range(0, len(due), AT_A_TIME):
            some = due[at : at + AT_A_TIME]
            taken = await asyncio.gather(*(self._try(line) for line in some))
            names += [line.endpoint.name for line, well in zip(some, taken, strict=True) if well]
        if not names:
            return
        try:
            await self._desk.answered(names)
        except psycopg.Error as error:
            if len(names) == 1:
                raise
            log.info("webhooks of %s: one by one: %s", self._webhooks.topic, one_line(error))
            for name in names:
                with suppress(psycopg.Error):  # its probe comes again
                    await self._desk.answered([name])
        log.warning("webhooks %s: answer again, and continue", ", ".join(names[:10]))

    async def _try(self, line: EndpointLine) -> bool:
        """Tell whether an endpoint takes a request without events, if its turn has come."""
        if not await self._desk.may_probe(line.endpoint.name, PROBE_EVERY_S):
            return False
        now_s = self._desk.now_s()
        return await line.probe(*trial_request(now_s), now_s=now_s)


def events_of(unit: Unit) -> list[Event]:
    """Return the events of a unit. Raises DeadLetter when they are too large for one request."""
    events: list[Event] = []
    size_bytes = 0
    for event in unit:
        size_bytes += len(event.payload_json or b"")
        if size_bytes > BODY_BYTES_MAX:
            raise DeadLetter(f"its events take more than {BODY_BYTES_MAX >> 20} MiB in one request")
        events.append(event)
    return events


def _waits(unit: Unit, place: int | None, why: str) -> Postponed | None:
    """Return the error of a unit for an endpoint that is stopped from this offset on.

    None: the unit waits in the log. Otherwise it was set aside before, and is postponed.
    """
    if place is not None and place <= unit.first_offset:
        return None
    return Postponed(why, after=STOPPED_RETRY_S)


def worst(errors: Sequence[BaseException]) -> BaseException:
    """Return the error that decides about a unit that several endpoints did not take.

    The shortest requested pause comes first; then an error with a retry by the usual delays; the
    unit is dead at once only if none of the endpoints will ever take it.
    """
    waits = [each for each in errors if isinstance(each, Postponed)]
    if waits:
        return min(waits, key=lambda each: each.after)
    others = [each for each in errors if not isinstance(each, DeadLetter)]
    return (others or list(errors))[0]
