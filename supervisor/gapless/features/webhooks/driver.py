"""The session with the database of a process that delivers for a webhook.

It reads the webhook again every LOOK_S, so that a new URL, rate or secret holds without a restart.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.features.webhooks.attempts import AttemptLog, said_of
from gapless.features.webhooks.record import Endpoint

LOOK_S = 5.0


@dataclass(slots=True)
class DeliveryTally:
    """The results of requests since the last record of them."""

    delivered: int = 0
    failed: int = 0
    error: str | None = None

    @property
    def has_news(self) -> bool:
        """Whether there is something to record."""
        return bool(self.delivered or self.failed)

    def add(self, earlier: DeliveryTally) -> None:
        """Add results that could not be recorded; the error is the later one's."""
        self.delivered += earlier.delivered
        self.failed += earlier.failed


class WebhookDriver:
    """One process's session with the database; in one event loop."""

    def __init__(self, dsn: str, name: str, connect_timeout_s: int, attempts: AttemptLog) -> None:
        self._dsn = dsn
        self._name = name
        self._connect_timeout_s = connect_timeout_s
        self._conn: AsyncConnection[Any] | None = None
        self._opening = asyncio.Lock()
        self._clock_s = 0.0  # the database's, minus ours
        self.tally = DeliveryTally()
        self.attempts = attempts

    def now_s(self) -> float:
        """Return the database's time, in seconds since 1970."""
        return monotonic() + self._clock_s

    async def look(self) -> Endpoint | None:
        """Return the webhook's present state; None: it was removed. Raises psycopg.Error."""
        conn = await self._session()
        async with conn.cursor(row_factory=class_row(Endpoint)) as cursor:
            await cursor.execute(query("webhooks", "endpoint"), {"name": self._name})
            found = await cursor.fetchone()
        if found is not None:
            self._clock_s = found.now_s - monotonic()
        return found

    async def note(self, *, is_open: bool) -> None:
        """Record the results of requests, each attempt, and whether the circuit is open."""
        if not (self.tally.has_news or is_open or self.attempts):
            return
        tally, self.tally = self.tally, DeliveryTally()
        attempts = self.attempts.take()
        try:
            await self._run(
                "note",
                delivered=tally.delivered,
                failed=tally.failed,
                error=tally.error,
                is_open=is_open,
                **said_of(attempts, self.attempts.each_max),
            )
        except psycopg.Error:
            self.tally.add(tally)
            self.attempts.give_back(attempts)
            raise

    async def probe(self, every_s: float) -> str:
        """Ask whether the endpoint may be tried: "probe", "wait" or "closed"."""
        return str(await self._run("probe", every_s=every_s))

    async def stop(self, reason: str) -> None:
        """Pause the webhook until a person resumes it."""
        await self._run("stop", reason=reason)

    async def close(self) -> None:
        """End the session."""
        if self._conn is not None:
            await self._conn.close()

    async def _run(self, what: str, **params: object) -> object:
        conn = await self._session()
        cursor = await conn.execute(query("webhooks", what), {"name": self._name, **params})
        row = await cursor.fetchone()
        return None if row is None else row[0]

    async def _session(self) -> AsyncConnection[Any]:
        async with self._opening:
            if self._conn is None or self._conn.closed:
                self._conn = await AsyncConnection.connect(
                    self._dsn,
                    autocommit=True,
                    client_encoding="utf8",
                    application_name=f"{schema()}/webhook {self._name}"[:63],
                    connect_timeout=self._connect_timeout_s,
                    keepalives_idle=5,
                    keepalives_interval=2,
                    keepalives_count=3,
                    tcp_user_timeout=10000,
                )
            return self._conn
