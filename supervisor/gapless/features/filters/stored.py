"""Filters of groups in the database: set, clear and check them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.log.filter import Filter

if TYPE_CHECKING:
    from psycopg import Connection


def set_filter(conn: Connection[Any], group_id: str, topic: str, wanted: Filter) -> bool:
    """Let a group take only the matching events of a topic; return whether that is a change.

    Waits for the batches in hand. Raises RefusedError for an invalid filter, for a queue, and for
    an unknown group or topic.
    """
    if wanted.takes_all:
        return clear_filter(conn, group_id, topic)
    return _changed(
        conn, "set_filter", wanted.query_params | {"group_id": group_id, "topic": topic}
    )


def clear_filter(conn: Connection[Any], group_id: str, topic: str) -> bool:
    """Let a group take all events of a topic again; return whether that is a change.

    Waits for the batches in hand. Raises RefusedError for an unknown group or topic.
    """
    return _changed(conn, "clear_filter", {"group_id": group_id, "topic": topic})


def check_filter(conn: Connection[Any], wanted: Filter) -> None:
    """Raise RefusedError for an invalid filter, as set_filter() does."""
    with refused():
        conn.execute(query("tail", "check_filter"), wanted.query_params)


def _changed(conn: Connection[Any], name: str, params: Mapping[str, object]) -> bool:
    with refused():
        row = conn.execute(query("filters", name), params).fetchone()
    assert row is not None
    return bool(row[0])
