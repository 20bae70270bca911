"""Deliver the units of one webhook: wait for a turn, send, and interpret the answer."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

import psycopg

from gapless.consume.unit import Unit
from gapless.consume.verdict.wish import DeadLetter, Postponed
from gapless.errors import ReceiverError, UsageError, one_line
from gapless.features.webhooks.address import Network, RefusedAddressError, parse_target
from gapless.features.webhooks.attempts import AttemptLog, Sent
from gapless.features.webhooks.body import body_of
from gapless.features.webhooks.driver import LOOK_S, WebhookDriver
from gapless.features.webhooks.kept import EndpointAnswer
from gapless.features.webhooks.meaning import meaning_of
from gapless.features.webhooks.pace import HOLD_S_MAX, PROBE_EVERY_S, Circuit, RequestPace
from gapless.features.webhooks.post import ANSWER_S_MAX, Poster, UnansweredError
from gapless.features.webhooks.record import Endpoint
from gapless.features.webhooks.sign import SecretError, headers_for, message_id, read_secrets

log = logging.getLogger("gapless.worker")

TURN_S_MAX = 10.0  # a unit waits so long for its turn by the rate before others get one


class RefusedDeliveryError(Exception):
    """An endpoint did not take a unit; the policy decides the unit's fate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Settings of all webhooks of a process: DSN, private networks, certificates, kept attempts."""

    dsn: str
    connect_timeout_s: int
    allowed: tuple[Network, ...]
    tls: ssl.SSLContext
    attempts_max: int


class Delivery:
    """One webhook in one process; all its calls run in one event loop.

    Its connections are opened at its first call: a supervisor makes it, and its workers use it.
    """

    def __init__(self, means: DeliverySettings, name: str, connections: int) -> None:
        self._means = means
        self._name, self._place = name, f"webhook {name}"
        self._connections = connections
        attempts = AttemptLog(means.attempts_max)
        self._desk = WebhookDriver(means.dsn, name, means.connect_timeout_s, attempts)
        self._circuit = Circuit(every_s=PROBE_EVERY_S)
        self._pace = RequestPace()
        self._looking = asyncio.Lock()
        self._look_at_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_error = "see gapless webhooks"
        self._endpoint: Endpoint | None = None
        self._poster: Poster | None = None
        self._secrets: list[bytes] = []

    async def deliver(self, unit: Unit) -> None:
        """Send a unit. Raises ReceiverError for errors of all units, else the unit's own error."""
        body = body_of(unit)
        await self._look()
        is_probe = await self._turn()
        try:
            answer = await self._send(unit, body)
        except UnansweredError as error:
            await self._failed(str(error))
            raise RefusedDeliveryError(str(error)) from None
        except RefusedAddressError as error:
            raise ReceiverError(self._place, error) from None
        finally:
            self._circuit.is_probing &= not is_probe
        await self._judge(answer)

    async def open(self) -> AsyncIterator[None]:
        """Yield; at the end record the last results, and close all connections (a resource)."""
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await self._note()
            await self._desk.close()
            if self._poster is not None:
                await self._poster.close()

    async def _send(self, unit: Unit, body: bytes) -> EndpointAnswer:
        assert self._poster is not None
        now_s, first = self._desk.now_s(), next(iter(unit))
        name = message_id(unit.idempotency_key)
        headers = headers_for(name, body, self._secrets, now_s=now_s)
        sent = Sent(self._name, now_s, unit.partition, first.offset, first.event_type, unit.attempt)
        return await self._desk.attempts.watch(self._poster.post(body, headers), sent)

    async def _judge(self, answer: EndpointAnswer) -> None:
        """Return if the unit was taken; otherwise raise the error of the unit, or of all units."""
        meaning, wait_s = meaning_of(answer, now_s=self._desk.now_s())
        if meaning in ("taken", "never"):  # it answered, and understood the unit
            await self._succeeded()
            if meaning == "never":
                raise DeadLetter(f"{self._place}: answered 422: it will never take this")
            return
        if meaning == "gone":
            reason = f"{self._place}: answered 410 Gone, and is paused: gapless webhooks resume"
            await self._desk.stop(reason)
            raise ReceiverError(self._place, "answered 410 Gone, and is paused")
        reason = f"{self._place}: answered {answer.status}"
        await self._failed(reason)
        if meaning == "later":
            self._pace.hold(monotonic(), wait_s)
            raise Postponed(f"{reason}, Retry-After {wait_s:.0f} s", after=min(wait_s, HOLD_S_MAX))
        raise RefusedDeliveryError(reason)

    # -- turns and probes -------------------------------------------------------------------------

    async def _turn(self) -> bool:
        """Wait until a request may be made; tell whether it is a probe. Raises ReceiverError."""
        held_s = self._pace.held_s(monotonic())
        if held_s > 0:
            raise ReceiverError(self._place, f"asked not to be called for {held_s:.0f} s more")
        if self._circuit.is_open:
            return await self._probe()
        assert self._endpoint is not None
        rate = self._endpoint.rate
        share = None if rate is None else rate / max(1, self._endpoint.workers)
        wait_s = self._pace.turn_s(monotonic(), share, TURN_S_MAX)
        if wait_s is None:
            raise ReceiverError(self._place, f"takes {rate:g} requests a second: others come first")
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        return False

    async def _probe(self) -> bool:
        """Return True if the caller's request is the probe, False if none is needed any more."""
        circuit = self._circuit
        if circuit.may_probe(monotonic()):
            circuit.is_probing = True
            says = "wait"
            try:
                says = await self._desk.probe(circuit.every_s)
            finally:
                circuit.is_probing = says == "probe"
            if says == "probe":
                circuit.wait(monotonic())
                return True
            if says == "closed":
                circuit.succeeded()
                return False
            circuit.wait(monotonic(), circuit.every_s / 10)
        why = f"requests failed in a row: one is tried every {circuit.every_s:.0f} s"
        raise ReceiverError(self._place, f"{why}; the last: {self._last_error}")

    async def _failed(self, reason: str) -> None:
        tally = self._desk.tally
        tally.failed += 1
        tally.error = self._last_error = reason
        if self._circuit.failed(monotonic()):
            log.error("%s: its circuit is open: %s", self._place, reason)
            await self._note()

    async def _succeeded(self) -> None:
        tally, circuit = self._desk.tally, self._circuit
        tally.delivered += 1
        tally.error = None
        was_open = circuit.is_open
        circuit.succeeded()
        if was_open:
            log.warning("%s: answers again: its circuit is closed", self._place)
            await self._note()

    async def _note(self) -> None:
        """Record the results of requests; if that is impossible now, later."""
        try:
            await self._desk.note(is_open=self._circuit.is_open)
        except psycopg.Error as error:
            log.info("%s: is noted later: %s", self._place, one_line(error))

    # -- the webhook's state ----------------------------------------------------------------------

    async def _look(self) -> None:
        """Read the webhook's present state every LOOK_S. Raises ReceiverError, psycopg.Error."""
        if monotonic() < self._look_at_s:
            return
        async with self._looking:
            if monotonic() < self._look_at_s:
                return
            found = await self._desk.look()
            if found is None:
                raise ReceiverError(self._place, "it was removed")
            await self._adopt(found)
            self._look_at_s = monotonic() + LOOK_S
            self._later(self._note, LOOK_S)

    def _later(self, work: Callable[[], Awaitable[None]], delay_s: float) -> None:
        """Do the work in delay_s seconds, in the loop."""

        async def wait() -> None:
            await asyncio.sleep(delay_s)
            await work()

        task = asyncio.create_task(wait())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _adopt(self, found: Endpoint) -> None:
        try:
            self._secrets = read_secrets(found.secrets)
            target = parse_target(found.url, allow_http=found.allow_http)
        except (SecretError, UsageError) as error:
            raise ReceiverError(self._place, error) from None
        before = self._endpoint
        if before is None:  # a new worker need not find out again
            self._circuit.is_open = found.is_open
        if before is None or (before.url, before.allow_http) != (found.url, found.allow_http):
            old, means = self._poster, self._means
            self._poster = Poster(target, means.allowed, means.tls, self._connections)
            if old is not None:
                self._later(old.close, 2 * ANSWER_S_MAX)  # requests are under way
        self._endpoint = found
