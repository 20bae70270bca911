"""The past of groups before the first look, where a feature records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

from gapless import feature
from gapless.errors import GaplessError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from psycopg import Connection


MINUTE_S = 60.0


def record_minute(conn: Connection[Any]) -> float:
    """Record the present minute; return the seconds until the next one. Raises psycopg.Error."""
    return next((make().record(conn) for make in feature.given(lambda each: each.past)), MINUTE_S)


def recorded_lags(conn: Connection[Any]) -> Mapping[tuple[str, str], Sequence[float | None]]:
    """Return the lags of the last hour by group and topic; nothing where none is recorded."""
    for make in feature.given(lambda each: each.past):
        with suppress(GaplessError, psycopg.Error):  # a broken connection is the next look's error
            return make().lags(conn)
    return {}


def recorded_lines(conn: Connection[Any], since_s: float) -> Sequence[DataclassInstance]:
    """Return a record for each group in a topic. Raises GaplessError where none is recorded."""
    for make in feature.given(lambda each: each.past):
        return make().lines(conn, since_s)
    return ()
