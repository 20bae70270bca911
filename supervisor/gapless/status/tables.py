"""The two tables of the screen: members, and partitions with owner, epoch, lag and rate (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from gapless.status.history import History
from gapless.status.snapshot import Presence, Snapshot, Standing
from gapless.status.view import Page
from gapless.status.words import (
    Glyphs,
    age,
    clean,
    count,
    counted,
    cut,
    fit,
    rate,
    shorten,
    sparkline,
)

WIDE = 100  # a narrower screen shows no offsets: lag says it
NO_SESSION = " (no session)"
COURSE_MIN = 8
COURSE_MAX = 60

_MEMBER_STYLES = {"revoked": "bold red", "gone": "bold red", "silent": "red", "draining": "yellow"}
_ROW_STYLES = {
    "waiting": "cyan",
    "moving": "cyan",
    "starting": "cyan",
    "lost": "red",
    "unserved": "bold red",
    "pausing": "yellow",
    "paused": "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What all parts of the screen are drawn from, and how wide they may be."""

    snapshot: Snapshot
    history: History
    has_rates: bool
    width: int
    glyphs: Glyphs

    @property
    def is_wide(self) -> bool:
        """Whether there is room for offsets, and for both names of a hand-over."""
        return self.width >= WIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    title: str
    width: int
    right: bool = True


def member_table(facts: Facts, shown: Sequence[Presence]) -> Table | Text:
    """Draw these members."""
    if not shown:
        return Text("nobody is running: start gapless run", style="yellow")
    names = [clean(member.name, facts.glyphs) for member in shown]
    fixed = 8 + 10 + 5 + 5
    name_width = min(max(map(cell_len, ["member", *names])), max(12, facts.width // 3))
    table = _table(
        _Column(title="member", width=name_width, right=False),
        _Column(title="state", width=8, right=False),
        _Column(title="partitions", width=10),
        _Column(title="beat", width=5),
        _Column(title="up", width=5),
        _Column(title="groups", width=max(1, facts.width - name_width - fixed - 5), right=False),
    )
    groups_width = max(1, facts.width - name_width - fixed - 5)
    for name, member in zip(names, shown, strict=True):
        style = _MEMBER_STYLES.get(member.condition, "")
        table.add_row(
            Text(shorten(name, name_width, facts.glyphs), style=style),
            Text(member.condition, style=style),
            _load(member),
            Text(age(member.beat_s), style="red" if member.beat_s > member.ttl_s else ""),
            age(member.up_s),
            Text(cut(_groups(member), groups_width, facts.glyphs), style="dim"),
        )
    return table


def partition_table(facts: Facts, page: Page) -> Table | Text:
    """Draw a page of partitions."""
    if not page.rows:
        return Text("no group consumes anything yet", style="yellow")
    names = [("! " if row.error else "") + row.name for row in page.rows]
    owners = [_owner(row, facts) for row in page.rows]
    columns = _columns(facts)
    widths = [column.width for column in columns]
    table = _table(*columns)
    for name, owner, row in zip(names, owners, page.rows, strict=True):
        cells: list[Text | str] = [
            Text(shorten(name, widths[0], facts.glyphs), style="red" if row.error else ""),
            Text(shorten(owner, widths[1], facts.glyphs), style=_ROW_STYLES.get(row.state, "")),
            count(row.epoch),
            *([str(row.next_offset), str(row.last_offset + 1)] if facts.is_wide else []),
            Text(count(row.lag), style="bold" if row.lag else "dim"),
            Text(age(row.lag_s), style="" if row.lag else "dim"),
            *(_rate(facts, row, widths[-2]) if facts.has_rates else []),
            Text(counted(row.dead_letters), style="yellow" if row.dead_letters else "dim"),
        ]
        table.add_row(*cells)
    return table


def fold(hidden: Sequence[Standing], glyphs: Glyphs) -> Text:
    """Say how many partitions are not shown, and what is missed by that."""
    most = max(row.lag for row in hidden)
    lag = "all at lag 0" if most == 0 else f"lag up to {count(most)}"
    return Text(f"{glyphs.ellipsis} {len(hidden)} more, {lag}", style="dim")


def _columns(facts: Facts) -> list[_Column]:
    """Choose the columns and their widths; names and the course share what the figures leave.

    Measured on everything, shown or not, so that the columns stand still from look to look.
    """
    offsets: list[_Column] = []
    if facts.is_wide:
        digits = max(len(str(row.last_offset + 1)) for row in facts.snapshot.partitions)
        offsets = [
            _Column(title="offset", width=max(6, digits)),
            _Column(title="log end", width=max(7, digits)),
        ]
    fixed = [
        _Column(title="epoch", width=5),
        *offsets,
        _Column(title="lag", width=5),
        _Column(title="behind", width=6),
        *([_Column(title="ev/s", width=5)] if facts.has_rates else []),
    ]
    dead = _Column(title="dead", width=5)
    least = COURSE_MIN + 1 if facts.has_rates else 0
    room = facts.width - sum(column.width + 1 for column in [*fixed, dead]) - least - 2
    partitions = ["! " + row.name for row in facts.snapshot.partitions]
    needs = [max(map(cell_len, partitions)), _owner_width(facts)]
    name_width, owner_width = fit(needs, room)
    course = min(COURSE_MAX, COURSE_MIN + max(0, room - name_width - owner_width))
    return [
        _Column(title="partition", width=name_width, right=False),
        _Column(title="owner", width=owner_width, right=False),
        *fixed,
        *([_Column(title="", width=course)] if facts.has_rates else []),
        dead,
    ]


def _table(*columns: _Column) -> Table:
    table = Table(
        box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", collapse_padding=True
    )
    for column in columns:
        table.add_column(
            column.title,
            width=column.width,
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="crop",
        )
    return table


def _owner(row: Standing, facts: Facts) -> str:
    """Say who works on a partition, or what is being done about it."""
    owner = clean(row.owner or "evicted", facts.glyphs)
    target = clean(row.target or "nobody", facts.glyphs)
    arrow = facts.glyphs.arrow
    return {
        "working": owner,
        "waiting": f"{owner} after {', '.join(map(str, row.waits_for))}",
        "moving": f"{owner} {arrow} {target}" if facts.is_wide else f"{arrow} {target}",
        "starting": f"{arrow} {target}",
        "lost": f"{owner}{NO_SESSION}" if facts.is_wide else f"({owner})",
        "unserved": "nobody",
        "pausing": owner,
        "paused": "paused",
        "shared": f"{row.workers} worker{'s' if row.workers != 1 else ''}",
    }[row.state]


def _owner_width(facts: Facts) -> int:
    """Return the width that any owner needs, with room for a hand-over."""
    names = [row.owner or "evicted" for row in facts.snapshot.partitions]
    names += [member.name for member in facts.snapshot.members]
    longest = max(cell_len(clean(name, facts.glyphs)) for name in names)
    arrow = len(facts.glyphs.arrow)
    if facts.is_wide:
        return longest + max(longest + arrow + 2, len(NO_SESSION))
    return longest + arrow + 1


def _rate(facts: Facts, row: Standing, width: int) -> list[Text]:
    """Return the cells of the rate and its course."""
    per_s = facts.history.rate(row.key)
    course = sparkline(facts.history.course(row.key), width, facts.glyphs)
    return [
        Text(rate(per_s, facts.glyphs), style="" if per_s else "dim"),
        Text(course, style="green"),
    ]


def _load(member: Presence) -> str:
    """Say how many partitions a member has, of how many it is to have."""
    if member.owned == member.wanted:
        return str(member.owned)
    return f"{member.owned} of {member.wanted}"


def _groups(member: Presence) -> str:
    return ", ".join(sorted({group.split("/")[0] for group in member.groups}))
