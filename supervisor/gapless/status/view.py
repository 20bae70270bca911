"""The data to show, the page that a person looks at, and the rows of that page (pure).

Four pages, one below the other: all groups, a group's partitions, a partition with its units set
aside, one unit that was set aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Literal

from gapless.status.fitted import wrapped
from gapless.status.groups import CURRENT_S, GroupLine, group_lines, laggards_first
from gapless.status.history import History
from gapless.status.snapshot import Snapshot, Standing
from gapless.status.words import UNICODE, Glyphs

At = tuple[str | int, ...]
"""A row, and the page behind it: () all, (group, topic), (…, partition), (…, first offset)."""

Sort = Literal["lag", "name", "rate"]
SORTS: tuple[Sort, ...] = ("lag", "name", "rate")
UNIT_DEPTH = 4  # the length of At that names a unit


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterLine:
    """A unit that was set aside, in a list; offset is its first, failed_ts its last failure."""

    offset: int
    events: int
    state: str
    attempts: int
    failed_ts: datetime
    key: str | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePage:
    """A page: `at` names its subject. chosen: a row of it, None is the first one.

    filter: a text that all rows contain. scroll: the lines of a text above the screen.
    """

    at: At = ()
    chosen: At | None = None
    filter: str = ""
    scroll: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleState:
    """The pages from the first to the one shown, and the text being typed or asked.

    asked: the unit with a redrive to confirm. wish: the unit to redrive. said: the result of
    a key. way_out: the words for ending the console. stays: `q` does not end it. has_keys: there is
    a keyboard.
    """

    pages: tuple[ConsolePage, ...] = (ConsolePage(),)
    sort: Sort = "lag"
    mode: Literal["look", "filter", "help"] = "look"
    asked: At | None = None
    wish: At | None = None
    said: str | None = None
    way_out: str = "q quit"
    stays: bool = False
    has_keys: bool = True
    has_quit: bool = False

    @property
    def page(self) -> ConsolePage:
        """The page that is shown."""
        return self.pages[-1]


@dataclass(frozen=True, kw_only=True)
class Look:
    """All data to show: one look at the database, and the course of the looks before it.

    history: None is a single look, without rates. letters, text: of the partition and of the unit
    that `letters_at` and `text_at` name. trouble: why there is no newer look.
    """

    snapshot: Snapshot
    history: History | None = None
    letters_at: At = ()
    letters: Sequence[LetterLine] = ()
    text_at: At = ()
    text: str = ""
    trouble: str | None = None
    groups: Sequence[GroupLine] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", group_lines(self.snapshot, self.history))


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """The surface: columns, lines (None: as many as needed), signs, time zone."""

    width: int
    height: int | None = None
    glyphs: Glyphs = UNICODE
    time_zone: tzinfo | None = None


def group_rows(look: Look, state: ConsoleState) -> list[GroupLine]:
    """Return the groups of the first page, sorted and filtered."""
    lines = [line for line in look.groups if _has(state.pages[0].filter, line.name, line.mode)]
    if state.sort == "name":
        return lines
    if state.sort == "rate":
        return sorted(lines, key=lambda line: -(line.handled_per_s or 0.0))
    return laggards_first(lines)


def partition_rows(look: Look, state: ConsoleState) -> list[Standing]:
    """Return the partitions of the page's group, of all groups on the first page."""
    at, wanted = state.page.at, state.page.filter
    rows = [
        row
        for row in look.snapshot.partitions
        if row.key[: len(at)] == at
        and _has(wanted, row.name, row.state, row.owner or "", row.error or "")
    ]
    if state.sort == "rate" and look.history is not None:
        rate = look.history.rate
        return sorted(rows, key=lambda row: -(rate(row.key) or 0.0))
    return rows if state.sort == "name" else sorted(rows, key=_urgency)


def letter_rows(look: Look, state: ConsoleState) -> list[LetterLine]:
    """Return the units set aside in the page's partition, newest failure first."""
    if look.letters_at != state.page.at:
        return []
    wanted = state.page.filter
    return [
        row for row in look.letters if _has(wanted, str(row.offset), row.state, row.key, row.error)
    ]


def row_names(look: Look, state: ConsoleState) -> list[At]:
    """Return the names of the rows of the page that is shown, in order."""
    at = state.page.at
    if not at:
        return [line.key for line in group_rows(look, state)]
    if len(at) == 2:
        return [row.key for row in partition_rows(look, state)]
    return [(*at, row.offset) for row in letter_rows(look, state)]


def chosen_index(names: Sequence[At], page: ConsolePage) -> int:
    """Return the index of the chosen row; the choice stays with its row, wherever that moves."""
    return names.index(page.chosen) if page.chosen in names else 0


def text_lines(look: Look, state: ConsoleState, canvas: Canvas) -> list[str]:
    """Return the text of a unit in lines that fit."""
    return wrapped(look.text if look.text_at == state.page.at else "", canvas.width, canvas.glyphs)


def _urgency(row: Standing) -> tuple[bool, int, bool, int]:
    """Sort as laggards_first() does; a missing event has no age, and counts as behind."""
    is_behind = row.lag_s is None or row.lag_s >= CURRENT_S
    lag = row.lag if is_behind else 0
    return (row.error is None, -lag, not row.is_troubled, -row.dead_letters)


def _has(wanted: str, *texts: str | None) -> bool:
    return not wanted or any(wanted.lower() in (text or "").lower() for text in texts)
