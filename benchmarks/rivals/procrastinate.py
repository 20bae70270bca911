"""procrastinate: batch_defer(), and one worker with as many concurrent tasks as a batch has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import procrastinate

from benchmarks.crew import Cue
from benchmarks.rivals import PAYLOAD


def create(dsn: str) -> None:
    """Apply its schema."""
    app, _ = _app(procrastinate.SyncPsycopgConnector(conninfo=dsn))
    with app.open():
        app.schema_manager.apply_schema()


def publish(dsn: str, events: int, batch: int, cue: Cue) -> int:
    """Defer jobs."""
    app, noop = _app(procrastinate.SyncPsycopgConnector(conninfo=dsn))
    with app.open():
        cue.begin()
        for _ in range(events // batch):
            noop.batch_defer(*[PAYLOAD] * batch)
    return events


def _drain(dsn: str, events: int, batch: int, cue: Cue) -> int:
    """Run a worker until there are no jobs."""

    async def work() -> None:
        app, _ = _app(procrastinate.PsycopgConnector(conninfo=dsn), cue.did)
        async with app.open_async():
            cue.begin()
            await app.run_worker_async(wait=False, concurrency=batch, install_signal_handlers=False)

    asyncio.run(work())
    return events


def _app(connector: Any, did: Callable[[], None] = lambda: None) -> tuple[Any, Any]:
    app = procrastinate.App(connector=connector)

    @app.task(name="noop")
    async def noop(pad: str) -> None:  # noqa: ARG001 - the payload
        did()

    return app, noop


DRAINS = {"procrastinate": _drain}  # it passes decoded arguments
