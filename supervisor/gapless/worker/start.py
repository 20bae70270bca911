"""The first join: while the database is away, wait for it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from time import monotonic

import psycopg

from gapless.db.connect import cannot_connect, is_transient
from gapless.errors import UnreachableError, one_line
from gapless.worker.control import Control
from gapless.worker.plan import Plan
from gapless.worker.retries import Retries

log = logging.getLogger("gapless.supervisor")

_RETRY_S_MAX = 1.0


def join_when_there(control: Control, plan: Plan, rest: Callable[[float], bool]) -> bool:
    """Join; while the database cannot be reached, try again, with one line for all attempts.

    rest: sleeps for at most the given seconds; returns False to stop, and so does this function.
    Raises UnreachableError when startTimeoutS is over, and at once if waiting cannot help:
    ConnectError, SchemaError, UsageError.
    """
    limit_s = plan.settings.start_timeout_s
    give_up_s = monotonic() + (limit_s or math.inf)
    retries = Retries(_RETRY_S_MAX)
    while True:
        try:
            control.join()
        except (psycopg.Error, UnreachableError) as error:
            away = _may_pass(plan.dsn, error)
        else:
            return True
        wait_s = retries.failed()
        if monotonic() + wait_s >= give_up_s:
            raise UnreachableError(f"{one_line(away)} (waited {limit_s} s: startTimeoutS)")
        if retries.failures == 1:
            how_long = f"for {limit_s} s" if limit_s else "until it is there"
            log.warning("supervisor: %s: trying again %s", one_line(away), how_long)
        if not rest(wait_s):
            return False


def _may_pass(dsn: str, error: psycopg.Error | UnreachableError) -> UnreachableError:
    """Return an error that may pass by waiting; raise any other."""
    if isinstance(error, psycopg.Error):
        if not is_transient(error):
            raise error
        return UnreachableError(str(cannot_connect(dsn, error)))
    return error
