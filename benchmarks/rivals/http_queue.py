"""A small alternative to the gateway, written in an afternoon: starlette, asyncpg, a growing table.

Each request is one prepared, binary INSERT on one of 16 connections; its stream listens, and reads
the rows after the last id that it has seen. Its order does not hold: it misses an id that commits
late.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from benchmarks.queries import query

CONNECTIONS = 16
CHANNEL = "bench_http"
DSN = "BENCH_HTTP_DSN"
PATH = "/v1/topics/outbox"
_NAMES = {
    "host": "host",
    "port": "port",
    "user": "user",
    "dbname": "database",
    "password": "password",
}
CAN_RUN = all(map(find_spec, ("asyncpg", "starlette", "uvicorn")))


def create(dsn: str, *, notifies: bool) -> None:
    """Create its table; notifies: each INSERT notifies the streams."""
    with psycopg.connect(dsn) as conn:
        conn.execute(query("http_queue_create"))
        if notifies:
            conn.execute(query("http_queue_notify"))


def main() -> None:
    """Serve until told to end, at any free port, with the database of the environment."""
    import asyncpg  # noqa: PLC0415 - only this process needs them
    import uvicorn  # noqa: PLC0415
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.requests import Request  # noqa: PLC0415
    from starlette.responses import JSONResponse, Response, StreamingResponse  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    where = _where()
    insert, behind = (
        query("http_queue_insert").decode(),
        query("http_queue_behind").decode(),
    )

    @asynccontextmanager
    async def connected(_app: Starlette) -> AsyncIterator[dict[str, object]]:
        pool = asyncpg.create_pool(**where, min_size=CONNECTIONS, max_size=CONNECTIONS)
        async with pool:
            yield {"pool": pool}

    async def publish(request: Request) -> Response:
        events = json.loads(await request.body())
        keys = [each["key"] for each in events]
        payloads = [json.dumps(each["payload"]) for each in events]
        await request.state.pool.execute(insert, keys, payloads)
        return JSONResponse({"events": len(events)}, status_code=202)

    async def lines() -> AsyncIterator[str]:
        news = asyncio.Event()
        conn = await asyncpg.connect(**where)
        try:
            await conn.add_listener(CHANNEL, lambda *_: news.set())
            yield "retry: 1000\n\n"
            last = 0
            while True:
                news.clear()
                for number, payload in await conn.fetch(behind, last):
                    last = number
                    yield f"id: {number}\ndata: {json.dumps({'payload': json.loads(payload)})}\n\n"
                await news.wait()
        finally:
            await conn.close()

    async def stream(_request: Request) -> Response:
        return StreamingResponse(lines(), media_type="text/event-stream")

    routes = [
        Route(f"{PATH}/events", publish, methods=["POST"]),
        Route(f"{PATH}/stream", stream),
    ]
    uvicorn.run(Starlette(routes=routes, lifespan=connected), port=0, access_log=False)


def _where() -> dict[str, Any]:
    """Return the database as asyncpg takes it: it reads no DSN of keywords and values."""
    parts = conninfo_to_dict(os.environ[DSN])
    return {name: parts[key] for key, name in _NAMES.items() if key in parts}


if __name__ == "__main__":
    main()
