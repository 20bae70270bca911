"""pgqueuer: enqueue() of lists, and its queue manager in drain mode, over asyncpg."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import asyncpg
from pgqueuer import AsyncpgDriver, PgQueuer, Queries
from pgqueuer.types import QueueExecutionMode
from psycopg.conninfo import conninfo_to_dict

from benchmarks.crew import Cue
from benchmarks.rivals import PAYLOAD


def create(dsn: str) -> None:
    """Install its schema."""

    async def install() -> None:
        conn = await _connect(dsn)
        await Queries(AsyncpgDriver(conn)).install()
        await conn.close()

    asyncio.run(install())


def publish(dsn: str, events: int, batch: int, cue: Cue) -> int:
    """Enqueue jobs."""

    async def work() -> None:
        conn = await _connect(dsn)
        queries = Queries(AsyncpgDriver(conn))
        cue.begin()
        for _ in range(events // batch):
            payloads = [json.dumps(PAYLOAD).encode() for _ in range(batch)]
            await queries.enqueue(["noop"] * batch, [*payloads], [0] * batch)
        await conn.close()

    asyncio.run(work())
    return events


def _drain(dsn: str, events: int, batch: int, cue: Cue) -> int:
    """Run its queue manager until there are no jobs."""

    async def work() -> None:
        conn = await _connect(dsn)
        queuer = PgQueuer(AsyncpgDriver(conn))

        @queuer.entrypoint("noop")
        async def noop(job: Any) -> None:
            json.loads(job.payload)
            cue.did()

        cue.begin()
        await queuer.run(batch_size=batch, mode=QueueExecutionMode.drain)
        await conn.close()

    asyncio.run(work())
    return events


async def _connect(dsn: str) -> asyncpg.Connection[Any]:
    given = conninfo_to_dict(dsn)
    return await asyncpg.connect(
        host=given.get("host"),
        port=given.get("port"),
        user=given.get("user"),
        password=given.get("password"),
        database=given.get("dbname"),
    )


DRAINS = {"pgqueuer": _drain}
