"""What the person at the keyboard wants to see, and what of it has room (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gapless.status.history import History
from gapless.status.snapshot import Snapshot, Standing

Sort = Literal["auto", "lag", "partition", "rate"]
_SORT_KEYS: dict[str, Sort] = {"l": "lag", "p": "partition", "r": "rate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Order, filter and page. `auto`: by partition while all fit, else the laggiest first."""

    sort: Sort = "auto"
    group_id: str | None = None
    page: int = 0

    def press(self, key: str, groups: Sequence[str]) -> View:
        """Return the view after a key: l, p, r sort; f next group; blank next page."""
        if key in _SORT_KEYS:
            return replace(self, sort=_SORT_KEYS[key], page=0)
        if key == "f":
            choices = [None, *groups]
            at = choices.index(self.group_id) if self.group_id in choices else 0
            return replace(self, group_id=choices[(at + 1) % len(choices)], page=0)
        if key == " ":
            return replace(self, page=self.page + 1)
        return self

    def filter(self, snapshot: Snapshot) -> list[Standing]:
        """Return the partitions of the chosen group, by group, topic and number."""
        return [row for row in snapshot.partitions if self.group_id in (None, row.group_id)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The rows that are shown, in order, and those that are not."""

    rows: Sequence[Standing]
    hidden: Sequence[Standing]


def arrange(snapshot: Snapshot, history: History, view: View, room: int | None) -> Page:
    """Filter, sort and fold: `room` lines, of which the last says what is hidden, if anything is.

    Sorted by lag, rows in trouble come first, so that no fold hides one.
    """
    rows = view.filter(snapshot)
    fits = room is None or len(rows) <= room
    if view.sort == "lag" or (view.sort == "auto" and not fits):
        rows.sort(key=lambda row: (not row.is_troubled, -row.lag, -(row.lag_s or 0.0)))
    elif view.sort == "rate":
        rows.sort(key=lambda row: -(history.rate(row.key) or 0.0))
    if room is None or fits:
        return Page(rows=rows, hidden=[])
    size = max(1, room - 1)
    pages = -(-len(rows) // size)
    first = view.page % pages * size
    return Page(rows=rows[first : first + size], hidden=[*rows[:first], *rows[first + size :]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How many lines each part of the screen would like, without headings."""

    members: int
    partitions: int
    errors: int
    news: int


def share(height: int, wanted: Shares) -> Shares:
    """Share `height` lines of content among the parts of the screen.

    The partitions come first, but errors and news keep a few lines each, and members a quarter.
    """
    members = min(wanted.members, max(2, height // 4))
    errors = min(wanted.errors, max(2, height // 10))
    news = min(wanted.news, max(2, height // 5))
    partitions = min(wanted.partitions, max(1, height - members - errors - news))
    spare = height - members - errors - news - partitions
    more_members = min(wanted.members - members, max(0, spare))
    spare -= more_members
    more_errors = min(wanted.errors - errors, max(0, spare))
    spare -= more_errors
    return Shares(
        members=members + more_members,
        partitions=partitions,
        errors=errors + more_errors,
        news=min(wanted.news, news + max(0, spare)),
    )
