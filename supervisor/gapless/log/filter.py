"""Filters: the events of a topic that a handler, an operator or a reader asks for (pure)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gapless.errors import UsageError


@dataclass(frozen=True, slots=True)
class Filter:
    """The wanted events: those of one of event_types for which `where` holds.

    event_types: * in them stands for any characters; None: any type. where: a jsonpath predicate
    over the payload; None: none. params: values of its variables, a JSON object as text.
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
        """Whether the group takes every event, so that there is no filter."""
        return self.where is None and "*" in (self.event_types or ())

    @property
    def query_params(self) -> dict[str, object]:
        """The parameters with which a named query applies it."""
        types = None if self.event_types is None else list(self.event_types)
        return {"event_types": types, "where": self.where, "params": self.params}


ALL = Filter()
"""A filter that keeps every event."""


def filter_of(event_types: object, where: object = None, params: object = None) -> Filter | None:
    """Return the filter in these options of a handler, or None without one.

    Raises UsageError for options that are no filter; the database checks that `where` is one.
    """
    if event_types is None and where is None:
        if params is not None:
            raise UsageError("params are the values for where, and there is none")
        return None
    if where is not None and not isinstance(where, str):
        raise UsageError(f"where={_short(where)}: a jsonpath, as text")
    return Filter(_types(event_types), where, _params(params))


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
