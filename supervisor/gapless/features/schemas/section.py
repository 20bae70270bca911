"""Topics whose payloads have schemas (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.status.section import Rank, StatusSection


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A topic with JSON Schemas.

    types: the event types with versions of their own; * is for those without. versions:
    the number in use. unfit: units that are dead letters because an event fits none, among the 10
    000 dead letters that are looked at. Events that publishers could not publish are counted
    nowhere.
    """

    topic: str
    types: list[str]
    versions: int
    unfit: int


SECTION = StatusSection(
    record=Checked,
    query=("schemas", "in_status"),
    key="checked",
    rank=Rank(document=70),
)
