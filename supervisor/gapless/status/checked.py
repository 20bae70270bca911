"""Topics whose payloads have schemas (pure)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A topic with JSON Schemas.

    types: of events, each with versions of its own; * is for those that have none. versions: how
    many count. unfit: units that are dead letters because an event fits none, among the 10 000
    dead letters that are looked at. What publishers were refused is kept nowhere.
    """

    topic: str
    types: list[str]
    versions: int
    unfit: int
