"""A real supervisor with workers and sequencer, in another process, during a measurement."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import multiprocess
import psycopg

from benchmarks.crew import PATIENCE_S
from benchmarks.queries import query
from gapless.consume.user.handler import Handler
from gapless.settings import Settings
from gapless.worker.plan import HandlerSource, make_plan
from gapless.worker.supervisor import Supervisor

MakeSource = Callable[[Settings], HandlerSource]

_fork = multiprocess.get_context("fork")


FORMS = {"ours": False, "ours, auto": True}  # by name: whether the cores decide how many workers


def few_workers(*, auto: bool) -> dict[str, Any]:
    """Return the setting for few workers for all partitions; none by default."""
    return {"partitions_per_worker": "auto"} if auto else {}


@contextmanager
def supervised(
    dsn: str,
    *handlers: Handler,
    is_owned: bool = True,
    source: MakeSource | None = None,
    **settings: Any,
) -> Iterator[None]:
    """Run a supervisor with handlers; inside the block all their partitions are owned.

    is_owned: False if nothing will be owned, as in a queue group: then the caller waits itself.
    source: makes the source of handlers that come and go: the caller waits for those.

    At the end the supervisor drains; one that does not is killed, which is an error.
    """
    process = _fork.Process(target=_supervise, args=(dsn, handlers, source, settings), name="bench")
    process.start()

    def is_ready(owned: bool) -> bool:
        if not process.is_alive():
            raise RuntimeError(f"the supervisor ended with exit code {process.exitcode}")
        return owned

    try:
        for handler in handlers if is_owned else ():
            wait_for(dsn, "owned", is_ready, group_id=handler.group)
        yield
    finally:
        process.terminate()
        process.join(PATIENCE_S)
        if process.is_alive():
            process.kill()
            process.join()
    if process.exitcode:
        raise RuntimeError(f"the supervisor ended with exit code {process.exitcode}")


def wait_for(
    dsn: str,
    name: str,
    enough: Callable[[Any], bool],
    *,
    look_every_s: float = 0.01,
    **params: object,
) -> None:
    """Repeat a query until its value is enough. Raises TimeoutError if it never is."""
    give_up_s = monotonic() + PATIENCE_S
    with psycopg.connect(dsn, autocommit=True) as conn:
        while True:
            row = conn.execute(query(name), params).fetchone()
            if row is not None and enough(row[0]):
                return
            if monotonic() > give_up_s:
                raise TimeoutError(f"waited {PATIENCE_S:g} s for {name} {params}: {row}")
            sleep(look_every_s)


def _supervise(
    dsn: str, handlers: tuple[Handler, ...], source: MakeSource | None, settings: dict[str, Any]
) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    agreed = Settings(create_topics=True, **settings)
    found = None if source is None else source(agreed)
    plan = make_plan(agreed, dsn, handlers, source=found)
    os._exit(Supervisor(plan).run())
