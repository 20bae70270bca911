"""Filters of groups in the database: set, cleared, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.log.filter import Filter

if TYPE_CHECKING:
    from psycopg import Connection


def set_filter(conn: Connection[Any], group_id: str, topic: str, wanted: Filter) -> bool:
    """Let a group take, of a topic, only what matches; return whether that is a change.

    Waits for the batches in hand. Raises RefusedError for what is no filter, for a queue, and for a
    group or topic that is not there.
    """
    if wanted.takes_all:
        return clear_filter(conn, group_id, topic)
    return _changed(
        conn, "set_filter", wanted.query_params | {"group_id": group_id, "topic": topic}
    )


def clear_filter(conn: Connection[Any], group_id: str, topic: str) -> bool:
    """Let a group take all events of a topic again; return whether that is a change.

    Waits for the batches in hand. Raises RefusedError for a group or topic that is not there.
    """
    return _changed(conn, "clear_filter", {"group_id": group_id, "topic": topic})


def check_filter(conn: Connection[Any], wanted: Filter) -> None:
    """Raise RefusedError for what is no filter, as set_filter() does."""
    with refused():
        conn.execute(query("tail", "check_filter"), wanted.query_params)


def _changed(conn: Connection[Any], name: str, params: Mapping[str, object]) -> bool:
    with refused():
        row = conn.execute(query("control", name), params).fetchone()
    assert row is not None
    return bool(row[0])
