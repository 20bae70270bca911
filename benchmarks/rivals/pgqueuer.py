"""pgqueuer: enqueue() of lists, and its queue manager in drain mode."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
from pgqueuer import PgQueuer, PsycopgDriver, Queries
from pgqueuer.types import QueueExecutionMode

from benchmarks.crew import Cue
from benchmarks.rivals import PAYLOAD


def create(dsn: str) -> None:
    """Install its schema."""

    async def install() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            await Queries(PsycopgDriver(conn)).install()

    asyncio.run(install())


def publish(dsn: str, events: int, batch: int, cue: Cue) -> int:
    """Enqueue jobs."""

    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            queries = Queries(PsycopgDriver(conn))
            payloads = [json.dumps(PAYLOAD).encode()] * batch
            cue.begin()
            for _ in range(events // batch):
                await queries.enqueue(["noop"] * batch, [*payloads], [0] * batch)

    asyncio.run(work())
    return events


def drain(dsn: str, events: int, batch: int, cue: Cue) -> int:
    """Run its queue manager until there are no jobs."""

    async def work() -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
            queuer = PgQueuer(PsycopgDriver(conn))

            @queuer.entrypoint("noop")
            async def noop(_job: Any) -> None:
                cue.did()

            cue.begin()
            await queuer.run(batch_size=batch, mode=QueueExecutionMode.drain)

    asyncio.run(work())
    return events
