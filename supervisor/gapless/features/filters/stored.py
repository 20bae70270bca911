"""Filters: which events of a topic a group takes, as a handler or an operator says it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.errors import UsageError

if TYPE_CHECKING:
    from psycopg import Connection


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events a group takes: those of one of event_types for which `where` holds.

    event_types: in which * stands for any characters; None: any. where: a jsonpath predicate over
    the payload; None: none. params: values of its variables, a JSON object as text.
    """

    event_types: tuple[str, ...] | None = None
    where: str | None = None
    params: str = "{}"

    def __str__(self) -> str:
        types = ", ".join(self.event_types or ())
        where = f"where {self.where}" if self.where is not None else ""
        return " ".join(each for each in (types, where) if each)

    @property
    def takes_all(self) -> bool:
        """Whether it says that the group takes every event: that is no filter."""
        return self.where is None and "*" in (self.event_types or ())

    @property
    def query_params(self) -> dict[str, object]:
        """The parameters of a named query that applies it."""
        types = None if self.event_types is None else list(self.event_types)
        return {"event_types": types, "where": self.where, "params": self.params}


ALL = Filter()
"""What keeps every event."""


def filter_of(event_types: object, where: object = None, params: object = None) -> Filter | None:
    """Return the filter that these options of a handler say, if they say one.

    Raises UsageError for what is none; whether `where` is a jsonpath the database says.
    """
    if event_types is None and where is None:
        if params is not None:
            raise UsageError("params are the values for where, and there is none")
        return None
    if where is not None and not isinstance(where, str):
        raise UsageError(f"where={_short(where)}: a jsonpath, as text")
    return Filter(_types(event_types), where, _params(params))


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


def _types(said: object) -> tuple[str, ...] | None:
    if said is None:
        return None
    types = tuple(said) if isinstance(said, Sequence) and not isinstance(said, str) else ()
    if not types or not all(isinstance(each, str) for each in types):
        raise UsageError(f"event_types={_short(said)}: a list of event types, with * as wildcard")
    if wrong := [each for each in types if "\0" in each]:
        raise UsageError(f"event_types: {wrong[0]!r} has a NUL character, which no event type has")
    return types


def _params(said: object) -> str:
    if said is None:
        return "{}"
    if not isinstance(said, Mapping):
        raise UsageError(f"params={_short(said)}: an object with a value for each variable")
    try:
        text = json.dumps(dict(said), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"params={_short(said)}: {error}") from error
    if "\\u0000" in text:
        raise UsageError(f"params={_short(said)}: PostgreSQL cannot store a NUL character")
    return text


def _short(value: object) -> str:
    try:
        return repr(value)[:100]
    except RecursionError:
        return f"a {type(value).__name__} that is too deep"
