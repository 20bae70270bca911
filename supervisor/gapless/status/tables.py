"""The tables of the console: groups, partitions, members, units set aside (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.text import Text

from gapless.status.fitted import shorten
from gapless.status.groups import CURRENT_S, GroupLine
from gapless.status.history import History
from gapless.status.layout import Cell, ScreenColumn, table
from gapless.status.snapshot import Presence, Standing
from gapless.status.view import Canvas, LetterLine, Look
from gapless.status.words import Glyphs, age, clean, count, counted, rate, some, sparkline

WIDE = 100  # a narrower screen shows no offsets: lag is enough
NO_SESSION = " (no session)"
KEY_MAX = 20
NAME_MIN = 10
COURSE_MIN = 8
COURSE_MAX = 60
ERROR_MIN = 12

_STYLES = (
    {"revoked": "bold red", "gone": "bold red", "silent": "red", "draining": "yellow"}
    | {"moving": "cyan", "starting": "cyan", "lost": "red", "unserved": "bold red"}
    | {"pausing": "yellow", "paused": "yellow", "dead": "yellow", "parked": "dim"}
    | {"grows": "bold red", "stands": "bold red", "stopped": "bold red", "nobody": "bold red"}
)


def group_table(
    look: Look, lines: Sequence[GroupLine], canvas: Canvas, chosen: int | None = None
) -> list[Text]:
    """Draw groups: the most important columns survive on the narrowest screen."""
    glyphs = canvas.glyphs
    marked = [("! " if line.stopped else "") + clean(line.name, glyphs) for line in lines]
    columns = [
        names(
            "group",
            [
                (name, "red" if line.stopped else "")
                for name, line in zip(marked, lines, strict=True)
            ],
            [*marked, *(clean(line.name, glyphs) for line in look.groups)],
        ),
        figures("lag", [_lag(line.lag) for line in lines], 5, 1),
        figures("behind", [_when(line.lag, age(line.lag_s)) for line in lines], 6, 2),
        figures("catch up", [_styled(_catch_up(line, glyphs)) for line in lines], 8, 3),
        figures("members", [_members(line) for line in lines], 7, 7),
        figures("dead", [_tally(line.dead_letters) for line in lines], 5, 4),
        figures("waiting", [_tally(line.waiting + line.parked) for line in lines], 7, 6),
    ]
    if look.history is not None:
        rates = [(rate(line.handled_per_s, glyphs), _faint(line.handled_per_s)) for line in lines]
        columns.insert(3, figures("ev/s", rates, 5, 5))
        columns.append(courses([line.lags for line in lines], glyphs, 8))
    return table(columns, canvas, chosen)


def _catch_up(line: GroupLine, glyphs: Glyphs) -> str:
    """Return when a group will have caught up, at this rate, or why it does not."""
    if line.outlook or line.lag == 0:
        return line.outlook or glyphs.dash
    if line.catch_up_s is None:
        return "<1s" if line.lag_s < CURRENT_S else "?"
    return age(line.catch_up_s)


def partition_table(
    look: Look,
    rows: Sequence[Standing],
    canvas: Canvas,
    chosen: int | None = None,
    *,
    of_one_group: bool = False,
) -> list[Text]:
    """Draw partitions of one group, by their numbers and with their errors, or of several."""
    is_wide = canvas.width >= WIDE
    history = look.history
    everything = look.snapshot.partitions
    columns = [
        _partition_names(rows, everything, canvas.glyphs, of_one_group=of_one_group),
        names(
            "member",
            [(_owner(row, canvas), _STYLES.get(row.state, "")) for row in rows],
            [_owner(row, canvas) for row in everything],
            rank=3,
        ),
        figures("epoch", [(count(row.epoch), "") for row in rows], 5, 6),
        figures("lag", [_lag(row.lag) for row in rows], 5, 1),
        figures("behind", [_when(row.lag, age(row.lag_s)) for row in rows], 6, 2),
        figures("dead", [_tally(row.dead_letters) for row in rows], 5, 4),
    ]
    if is_wide:
        width = max((len(str(row.last_offset + 1)) for row in everything), default=1)
        columns[3:3] = [
            figures("current offset", [(str(row.next_offset), "") for row in rows], width, 7),
            figures("log end offset", [(str(row.last_offset + 1), "") for row in rows], width, 8),
        ]
    if history is not None:
        rates = [(rate(per_s, canvas.glyphs), _faint(per_s)) for per_s in _rates(history, rows)]
        columns.insert(-1, figures("ev/s", rates, 5, 5))
    if of_one_group and any(row.error for row in rows):
        errors = [(clean(row.error or "", canvas.glyphs), "red") for row in rows]
        columns.append(words("error", errors, ERROR_MIN, 3))
    elif history is not None:
        columns.append(courses([history.course(row.key) for row in rows], canvas.glyphs, 9))
    return table(columns, canvas, chosen)


def _partition_names(
    rows: Sequence[Standing], everything: Sequence[Standing], glyphs: Glyphs, *, of_one_group: bool
) -> ScreenColumn:
    def name(row: Standing) -> str:
        text = str(row.partition_id) if of_one_group else clean(row.name, glyphs)
        return f"! {text}" if row.error else text

    cells = [(name(row), "red" if row.error else "") for row in rows]
    return names("partition", cells, ["! " + name(row) for row in everything])


def member_table(members: Sequence[Presence], canvas: Canvas) -> list[Text]:
    """Draw members."""
    glyphs = canvas.glyphs
    called = [clean(member.name, glyphs) for member in members]
    states = [member.condition for member in members]
    groups = [(clean(_groups(member), glyphs), "dim") for member in members]
    beats = [
        (age(member.beat_s), "red" if member.beat_s > member.ttl_s else "") for member in members
    ]
    styled = [(name, _STYLES.get(state, "")) for name, state in zip(called, states, strict=True)]
    columns = [
        names("member", styled, called),
        words("state", [_styled(state) for state in states], 8, 1),
        figures("partitions", [(_load(member), "") for member in members], 10, 2),
        figures("heartbeat", beats, 9, 3),
        figures("up", [(age(member.up_s), "") for member in members], 5, 4),
        words("groups", groups, 6, 5),
    ]
    if any(member.kind == "client" for member in members):
        columns.insert(2, words("kind", [(member.kind, "dim") for member in members], 10, 6))
    versions = [member.version or "" for member in members]
    if len({*versions} - {""}) > 1:
        columns.insert(-1, words("version", [(each, "") for each in versions], 8, 7))
    return table(columns, canvas)


def letter_table(
    letters: Sequence[LetterLine], now: datetime, canvas: Canvas, chosen: int | None = None
) -> list[Text]:
    """Draw the units set aside in a partition."""
    glyphs = canvas.glyphs
    ages = [age(max(0.0, (now - each.failed_ts).total_seconds())) for each in letters]
    keys = [shorten(clean(each.key or glyphs.dash, glyphs), KEY_MAX, glyphs) for each in letters]
    digits = max((len(str(each.offset)) for each in letters), default=1)
    return table(
        [
            figures("offset", [(str(each.offset), "") for each in letters], digits, 0),
            words("state", [_styled(each.state) for each in letters], 7, 1),
            figures("failed", [(each, "") for each in ages], 6, 2),
            figures("attempts", [(count(each.attempts), "") for each in letters], 8, 5),
            figures("events", [(count(each.events), "") for each in letters], 6, 6),
            words("key", [(key, "") for key in keys], 6, 4),
            words("error", [(clean(each.error, glyphs), "red") for each in letters], 8, 3),
        ],
        canvas,
        chosen,
    )


def fold(hidden: Sequence[Standing], glyphs: Glyphs) -> Text:
    """Return the number of hidden partitions, and their largest lag."""
    most = max(row.lag for row in hidden)
    lag = "all at lag 0" if most == 0 else f"lag up to {count(most)}"
    return Text(f"{glyphs.ellipsis} {len(hidden)} more, {lag}", style="dim")


def _lag(lag: int) -> Cell:
    return count(lag), "bold" if lag else "dim"


def _when(lag: int, text: str) -> Cell:
    return text, "" if lag else "dim"


def _tally(number: int) -> Cell:
    return counted(number), "yellow" if number else "dim"


def _faint(per_s: float | None) -> str:
    return "" if per_s else "dim"


def _styled(word: str) -> Cell:
    return word, _STYLES.get(word, "")


def _members(line: GroupLine) -> Cell:
    """Count supervisors, or the workers that share a queue; clients are not counted."""
    if line.mode == "queue" and not line.unserved:
        return str(line.workers or "-"), ""
    return str(line.members), "" if line.members else "bold red"


def _rates(history: History, rows: Sequence[Standing]) -> list[float | None]:
    return [history.rate(row.key) for row in rows]


def _owner(row: Standing, canvas: Canvas) -> str:
    """Return the worker of a partition, or the change that is under way."""
    glyphs, is_wide = canvas.glyphs, canvas.width >= WIDE
    owner = clean(row.owner or "evicted", glyphs)
    target = clean(row.target or "nobody", glyphs)
    arrow = glyphs.arrow
    return {
        "working": owner,
        "waiting": f"{owner} after {', '.join(map(str, row.waits_for))}",
        "moving": f"{owner} {arrow} {target}" if is_wide else f"{arrow} {target}",
        "starting": f"{arrow} {target}",
        "lost": f"{owner}{NO_SESSION}" if is_wide else f"({owner})",
        "unserved": "nobody",
        "pausing": owner,
        "paused": "paused",
        "shared": some(row.workers, "worker") if row.workers else "clients",
    }[row.state]


def _load(member: Presence) -> str:
    """Return the number of partitions that a member has, of those that it should have."""
    if member.owned == member.wanted:
        return str(member.owned or "-")  # its share of a queue has no lease
    return f"{member.owned} of {member.wanted}"


def _groups(member: Presence) -> str:
    return ", ".join(sorted({group.split("/")[0] for group in member.groups}))


def figures(title: str, cells: Sequence[Cell], width: int, rank: int) -> ScreenColumn:
    """Return a column of figures, shown whole or not at all."""
    width = max(width, len(title))
    return ScreenColumn(title=title, cells=cells, need=width, least=width, rank=rank, is_right=True)


def names(
    title: str, cells: Sequence[Cell], among: Sequence[str], *, rank: int = 0
) -> ScreenColumn:
    """Return a column of names, as wide as the widest of all, so that it does not move."""
    need = max(map(cell_len, [title, *among]))
    return ScreenColumn(
        title=title, cells=cells, need=need, least=NAME_MIN, rank=rank, keeps="ends"
    )


def words(title: str, cells: Sequence[Cell], least: int, rank: int) -> ScreenColumn:
    """Return a column of words, at least this wide."""
    need = max(map(cell_len, [title, *(text for text, _ in cells)]))
    return ScreenColumn(title=title, cells=cells, need=need, least=least, rank=rank)


def courses(points: Sequence[Sequence[float | None]], glyphs: Glyphs, rank: int) -> ScreenColumn:
    """Return a column of sparklines, the newest point at the right."""
    return ScreenColumn(
        title="trend",
        cells=[(sparkline(each, COURSE_MAX, glyphs), "green") for each in points],
        need=COURSE_MAX,
        least=COURSE_MIN,
        rank=rank,
        is_right=True,
        keeps="end",
    )
