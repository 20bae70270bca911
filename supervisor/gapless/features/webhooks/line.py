"""One endpoint of many that share a group, in one process: its requests and their answers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from time import monotonic

from gapless.consume.verdict.wish import DeadLetter, Postponed
from gapless.errors import UsageError
from gapless.features.webhooks.address import EndpointAddress, RefusedAddressError, parse_target
from gapless.features.webhooks.attempts import AttemptLog, Sent
from gapless.features.webhooks.driver import DeliveryTally
from gapless.features.webhooks.kept import EndpointAnswer
from gapless.features.webhooks.meaning import WELL, meaning_of
from gapless.features.webhooks.pace import HOLD_S_MAX, Circuit, RequestPace
from gapless.features.webhooks.post import Poster, UnansweredError
from gapless.features.webhooks.record import SharedEndpoint
from gapless.features.webhooks.sign import SecretError, headers_for, read_secrets
from gapless.features.webhooks.trial import TEST_TYPE

PER_ENDPOINT = 4
BUSY_S_MAX = 1.0  # a unit waits so long while an endpoint has its maximum of requests
BUSY_RETRY_S = 2.0  # at least; it comes again when the units before it have had their turn
HANGS_S = 1.0  # a request without an answer for so long hangs, and so does its endpoint
PRESSED_S = 0.3  # after so long, or three times the usual time, it gives its place to others
AT_A_TIME = 64
HANGING_MAX = 8


class RefusedByOneError(Exception):
    """An endpoint did not take a unit; the policy decides its fate, for this endpoint alone."""


class StopWebhookError(Exception):
    """An endpoint must be stopped, for this reason; tries: until a probe succeeds."""

    def __init__(self, reason: str, *, tries: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.tries = tries


class Places:
    """Places for requests of a process; hanging requests have a bound of their own."""

    def __init__(self) -> None:
        self.all = asyncio.Semaphore(AT_A_TIME)
        self.hanging = asyncio.Semaphore(HANGING_MAX)
        self._wanted = 0  # by requests that wait for a place

    async def take(self) -> bool:
        """Take a place; tell whether there was one in time."""
        self._wanted += 1
        try:
            return await _took(self.all)
        finally:
            self._wanted -= 1

    async def answered(
        self, asked: asyncio.Future[EndpointAnswer], patience_s: float
    ) -> bool | None:
        """Give a place back; tell whether its request has an answer, or hangs.

        None: neither, but it has taken patience_s, and others want its place.
        """
        until_s = monotonic() + HANGS_S
        wait_s = min(patience_s, HANGS_S)
        try:
            while True:
                done, _ = await asyncio.wait({asked}, timeout=wait_s)
                if done or monotonic() >= until_s:
                    return bool(done)
                if self._wanted:
                    return None
                wait_s = min(PRESSED_S / 4, max(0.0, until_s - monotonic()))
        finally:
            self.all.release()


async def _took(slots: asyncio.Semaphore) -> bool:
    """Take a slot; tell whether there was one in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BUSY_S_MAX):
            return await slots.acquire()
    return False


class EndpointLine:
    """This process's state of one endpoint, and its connections."""

    def __init__(
        self,
        endpoint: SharedEndpoint,
        made: Callable[[EndpointAddress], Poster],
        attempts: AttemptLog,
    ) -> None:
        self.endpoint = endpoint
        self._made = made
        self._attempts = attempts
        self._poster: Poster | None = None
        self.tally = DeliveryTally()
        self._circuit = Circuit()
        self._pace = RequestPace()
        self._slots = asyncio.Semaphore(PER_ENDPOINT)
        self._call_s = BUSY_S_MAX  # duration of the last send, but at least this
        self._usual_s = 0.0  # duration of the last request with an answer
        self._hangs = False
        self._asked_s: deque[float] = deque()  # starts of requests without an answer yet
        self._turns_s = 0.0  # when all units that were turned away have had their turn
        self._place = f"webhook {endpoint.name}"

    async def send(
        self,
        places: Places,
        message_id: str,
        body: bytes,
        *,
        share: int,
        sent: Sent,
    ) -> None:
        """Send a unit. Raises the unit's error for this endpoint, and StopWebhookError.

        places: of all requests of the process. share: the number of processes that share its rate.
        While the first attempt waits, other units do.
        """
        if (held_s := self._pace.held_s(monotonic())) > 0:
            raise Postponed(
                f"{self._place}: asked not to be called for {held_s:.0f} s", after=held_s
            )
        if (self._hangs and places.hanging.locked()) or self._seems_to_hang():
            raise self._turned_away()
        if sent.attempt == 1 and self._slots.locked() and self._turns_s > monotonic():
            raise self._turned_away()
        if not await _took(self._slots):
            raise self._turned_away()
        began_s = monotonic()
        try:
            await self._turn(share)
            if not await places.take():
                raise self._turned_away()
            asked = asyncio.ensure_future(self._post(message_id, body, sent))
            await self._judge(await self._answer(asked, places), sent.at_s)
        finally:
            self._call_s = max(monotonic() - began_s, BUSY_S_MAX)
            self._slots.release()

    async def _answer(
        self, asked: asyncio.Future[EndpointAnswer], places: Places
    ) -> EndpointAnswer:
        """Return an answer; give its place back when there is one, or when the request hangs.

        A hanging request needs one of the places for those; if there is none, or if others need its
        place before, it is broken off, and made again later.
        """
        began_s = monotonic()
        self._asked_s.append(began_s)
        try:
            done = await places.answered(asked, self._patience_s)
            if done is not None:
                self._hangs = not done
            if done is None or (self._hangs and places.hanging.locked()):
                raise self._turned_away()
            async with places.hanging if self._hangs else nullcontext():
                answer = await asked
            self._usual_s = monotonic() - began_s
            return answer
        finally:
            self._asked_s.remove(began_s)
            asked.cancel()

    @property
    def _patience_s(self) -> float:
        return max(PRESSED_S, 3 * self._usual_s)

    def _seems_to_hang(self) -> bool:
        """Tell whether a request has waited too long for its answer: others need not try then."""
        return bool(self._asked_s) and monotonic() - self._asked_s[0] > self._patience_s

    async def probe(self, message_id: str, body: bytes, *, now_s: float) -> bool:
        """Send a request without events, unless a pause was asked for; tell if it was taken."""
        if self._pace.held_s(monotonic()) > 0:
            return False
        try:
            answer = await self._post(
                message_id, body, Sent(self.endpoint.name, now_s, event_type=TEST_TYPE)
            )
        except (RefusedByOneError, StopWebhookError):
            return False
        return answer.status in WELL

    def adopt(self, endpoint: SharedEndpoint) -> None:
        """Adopt the database's present state of the endpoint."""
        if self.endpoint.is_stopped and not endpoint.is_stopped:
            self._circuit.succeeded()
        self.endpoint = endpoint

    async def close(self) -> None:
        """Close the connections without a request under way."""
        if self._poster is not None:
            await self._poster.close()

    def _turned_away(self) -> Postponed:
        """Return when a unit is to come again: after the units that were turned away before it."""
        now_s = monotonic()
        self._turns_s = max(self._turns_s, now_s) + self._call_s / PER_ENDPOINT
        why = f"{self._place}: other requests are under way"
        return Postponed(why, after=min(max(self._turns_s - now_s, BUSY_RETRY_S), HOLD_S_MAX))

    async def _turn(self, share: int) -> None:
        rate = self.endpoint.rate
        wait_s = self._pace.turn_s(monotonic(), None if rate is None else rate / share, BUSY_S_MAX)
        if wait_s is None:
            why = f"{self._place}: takes {rate:g} requests a second: others come first"
            raise Postponed(why, after=BUSY_RETRY_S)
        await asyncio.sleep(wait_s)

    async def _post(self, message_id: str, body: bytes, sent: Sent) -> EndpointAnswer:
        try:
            if self._poster is None:
                url, allow_http = self.endpoint.url, self.endpoint.allow_http
                self._poster = self._made(parse_target(url, allow_http=allow_http))
            headers = headers_for(
                message_id, body, read_secrets(self.endpoint.secrets), now_s=sent.at_s
            )
            return await self._attempts.watch(self._poster.post(body, headers), sent)
        except (SecretError, RefusedAddressError, UsageError) as error:
            raise StopWebhookError(f"it cannot be called: {error}", tries=True) from None
        except UnansweredError as error:
            self._failed(str(error))
            raise RefusedByOneError(f"{self._place}: {error}") from None

    async def _judge(self, answer: EndpointAnswer, now_s: float) -> None:
        meaning, wait_s = meaning_of(answer, now_s=now_s)
        if meaning in ("taken", "never"):  # it answered, and understood the unit
            self.tally.delivered += 1
            self.tally.error = None
            self._circuit.succeeded()
            if meaning == "never":
                raise DeadLetter(f"{self._place}: answered 422: it will never take this")
            return
        if meaning == "gone":
            raise StopWebhookError("answered 410 Gone: gapless webhooks resume", tries=False)
        reason = f"{self._place}: answered {answer.status}"
        if meaning == "later":
            self._pace.hold(monotonic(), wait_s)
            self._failed(reason)
            raise Postponed(f"{reason}, Retry-After {wait_s:.0f} s", after=min(wait_s, HOLD_S_MAX))
        self._failed(reason)
        raise RefusedByOneError(reason)

    def _failed(self, reason: str) -> None:
        """Count a failure. Raises StopWebhookError when it is one too many in a row."""
        self.tally.failed += 1
        self.tally.error = reason
        self._circuit.failed(monotonic())
        if self._circuit.is_open:
            raise StopWebhookError(f"its circuit is open: {reason}", tries=True)
