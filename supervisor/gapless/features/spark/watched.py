"""The progress of pipelines that run, read from the database beside them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress

import psycopg

from gapless.errors import GaplessError
from gapless.features.spark.pipeline.position import list_pipelines
from gapless.features.spark.standby import open_control

LOOK_S = 0.5


@contextmanager
def watched(dsn: str, names: Collection[str], tell: Callable[[int, int], None]) -> Iterator[None]:
    """While in `with`, tell how many events the pipelines have read since then, and of how many.

    On a thread, with a session of its own. Without a connection it tells nothing.
    """
    ended = threading.Event()
    thread = threading.Thread(target=_watch, args=(dsn, names, tell, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _watch(
    dsn: str, names: Collection[str], tell: Callable[[int, int], None], ended: threading.Event
) -> None:
    total = 0
    with suppress(psycopg.Error, GaplessError), closing(open_control(dsn)) as conn:
        while not ended.wait(LOOK_S):
            lags = [each.lag for each in list_pipelines(conn) if each.name in names]
            if len(lags) == len(names):  # one that has never run is not known before it does
                total = max(total, sum(lags))
                tell(total - sum(lags), total)
