"""A lost session that was not the unit's fault: its attempt does not count (I8)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import monotonic

import psycopg
import tenacity

from gapless.consume.drive import Driver
from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.errors import ConnectError
from gapless.worker.spec import WorkerSpec

FORGIVEN_OF = 5  # lost sessions: one of so many counts against the unit all the same
# An operator ended the session, or the server stopped: not what the handler did.
SHUTDOWN_STATES = frozenset({"57P01", "57P02", "57P03"})


def forgive(
    spec: WorkerSpec,
    driver: Driver,
    error: psycopg.Error,
    began_s: float,
    stop: Callable[[], bool],
    sleep: Callable[[float], None],
) -> None:
    """Take the unit's last attempt back, from a new session, if it is not to blame for the loss.

    An operator or a restart of the server is; a session lost for no known reason counts as a death.
    So does one loss of FORGIVEN_OF: a unit may know how to make the server do it.
    """
    assignment = driver.assignment
    if assignment.epoch % FORGIVEN_OF == 0:
        return
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((ConnectError, psycopg.OperationalError)),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=1),
        stop=lambda state: (state.seconds_since_start or 0) > spec.connect_timeout_s or stop(),
        sleep=sleep,
        retry_error_callback=lambda _: None,
    ):
        with (
            attempt,
            contextlib.closing(
                connect(
                    spec.dsn,
                    role=f"worker {assignment.partition}",
                    connect_timeout_s=spec.connect_timeout_s,
                )
            ) as conn,
        ):
            age_s = monotonic() - began_s
            restarted = conn.execute(query("lease", "restarted"), {"age_s": age_s}).fetchone()
            if error.sqlstate in SHUTDOWN_STATES or restarted == (True,):
                driver.forgive(conn)
