"""Whether groups with subscriptions take anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gapless.db.queries import query
from gapless.ops.doctor.finding import Finding, Patient, ok, warning
from gapless.ops.rows import rows
from gapless.ops.text import plain, quantity

_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    """A group that takes what its subscriptions match, and how many it has."""

    group: str
    topic: str
    subscriptions: int


def subscriptions(patient: Patient) -> Iterator[Finding]:
    """Whether a group passes all events, for the last of its subscriptions is gone."""
    found = rows(patient.conn, Subscribed, query("doctor", "subscribed"))
    empty = [each for each in found if not each.subscriptions]
    for each in empty[:_SHOWN_MAX]:
        place = plain(f"{each.group}/{each.topic}")
        remedy = f"gapless subscriptions add {place}, or gapless groups filter {place} --clear"
        yield warning("subscriptions", f"{place} has none left, and takes no event", remedy)
    if len(empty) > _SHOWN_MAX:
        more = f"{quantity(len(empty) - _SHOWN_MAX, 'more group')} without any"
        yield warning("subscriptions", more, "gapless groups shows all")
    if not empty:
        total = sum(each.subscriptions for each in found)
        yield ok(
            "subscriptions", f"{quantity(total, 'subscription')} in {quantity(len(found), 'group')}"
        )
