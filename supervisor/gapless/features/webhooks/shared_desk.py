"""The session with the database of a process that delivers for webhooks that share a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from time import monotonic

from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.features.webhooks.attempts import Attempt, AttemptLog, said_of
from gapless.features.webhooks.driver import DeliveryTally, WebhookDriver
from gapless.features.webhooks.record import SharedEndpoint, SharedWebhooks


class SharedWebhookDriver(WebhookDriver):
    """One process's session with the database; in one event loop."""

    def __init__(
        self, dsn: str, webhooks: SharedWebhooks, connect_timeout_s: int, attempts: AttemptLog
    ) -> None:
        super().__init__(dsn, f"of {webhooks.topic}", connect_timeout_s, attempts)
        self._topic = webhooks.topic
        self.workers = 1

    async def look_at_all(self, every_s: float) -> list[SharedEndpoint]:
        """Return the present state of the webhooks. every_s: seconds between probes of one."""
        conn = await self._session()
        params = {"topic": self._topic, "every_s": every_s}
        async with conn.cursor(row_factory=class_row(SharedEndpoint)) as cursor:
            await cursor.execute(query("webhooks", "shared"), params)
            found = await cursor.fetchall()
        clock = await conn.execute(query("webhooks", "shared_clock"), params)
        row = await clock.fetchone()
        assert row is not None
        self._clock_s, self.workers = row[0] - monotonic(), max(1, row[1])
        return found

    async def stopped_at(self, ids: Collection[int], partition: int) -> dict[int, int]:
        """Return from which offset on each of these subscriptions is stopped in a partition."""
        conn = await self._session()
        params = {"ids": list(ids), "partition_id": partition}
        cursor = await conn.execute(query("webhooks", "stopped_at"), params)
        return dict(await cursor.fetchall())

    async def note_all(self, tallies: Mapping[str, DeliveryTally], attempts: list[Attempt]) -> None:
        """Record the results of requests, by the names of webhooks, and each attempt."""
        # All of them at once: so their rows are locked in one order.
        also = {each.sent.name: DeliveryTally() for each in attempts}
        noted = {**also, **tallies}
        await self._run(
            "note_shared",
            names=list(noted),
            delivered=[each.delivered for each in noted.values()],
            failed=[each.failed for each in noted.values()],
            errors=[each.error for each in noted.values()],
            **said_of(attempts, self.attempts.each_max),
        )

    async def may_probe(self, name: str, every_s: float) -> bool:
        """Ask whether this process may now try a webhook whose circuit is open."""
        return await self._run("probe", name=name, every_s=every_s) == "probe"

    async def set_apart(self, name: str, reason: str, *, tries: bool) -> None:
        """Stop a webhook; tries: until a probe succeeds, else until a person resumes it."""
        await self._run("stop_shared", name=name, reason=reason, tries=tries)

    async def answered(self, names: Sequence[str]) -> None:
        """Let webhooks continue whose probes succeeded; all, or none when an error is raised."""
        await self._run("answered", names=sorted(names))
