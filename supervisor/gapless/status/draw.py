"""The console's picture: a look, the state of its keys and a size become lines that fit (pure).

`gapless status` prints the result of `draw`; `--watch`, `gapless run` and `gapless demo` show it.
Words say everything that colour says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from gapless.status.fitted import cut, wrapped
from gapless.status.keys import HELP
from gapless.status.layout import Section, lay_out, window
from gapless.status.lines import error_lines, news_lines, summary, title, warning_lines
from gapless.status.snapshot import Snapshot, Standing
from gapless.status.tables import fold, group_table, letter_table, member_table, partition_table
from gapless.status.view import (
    UNIT_DEPTH,
    Canvas,
    ConsoleState,
    Look,
    chosen_index,
    group_rows,
    letter_rows,
    partition_rows,
    row_names,
    text_lines,
)
from gapless.status.words import PLAIN, clean, some

WIDTH_MAX = 10_000  # of a pipe
WORDS = (
    ("behind", "age of the oldest event left"),
    ("catch up", "until lag is 0, as it goes"),
    ("waiting", "set aside, to be tried again"),
    ("dead", "set aside for good"),
    ("!", "stopped by an error"),
)


def draw(look: Look, state: ConsoleState, canvas: Canvas) -> list[Text]:
    """Return the lines of the page that is shown, as many as there are in canvas; each fits it.

    There are fewer where the last line would be empty: no keys, no way out.
    """
    head = [title(look, state, canvas), *_head(look, state, canvas)]
    footer = _footer(state, canvas)
    room = None if canvas.height is None else canvas.height - len(head) - len(footer)
    lines = [*head, *lay_out(_body(look, state, canvas), room)]
    if canvas.height is not None:
        lines = lines[: canvas.height - len(footer)]
        if footer:  # it stays at the foot
            lines += [Text()] * (canvas.height - len(footer) - len(lines))
    lines = [*lines, *footer][-canvas.height if canvas.height else 0 :]
    for line in lines:
        line.truncate(canvas.width, overflow="crop")
    return lines


def one_look(
    snapshot: Snapshot, *, width: int = WIDTH_MAX, height: int | None = None
) -> list[Text]:
    """Return the first page without keys; without a size it cuts nothing."""
    state = ConsoleState(has_keys=False, way_out="")
    canvas = Canvas(width=width, height=height, glyphs=PLAIN)
    lines = draw(Look(snapshot=snapshot), state, canvas)
    for line in lines:
        line.rstrip()
    return lines


def _head(look: Look, state: ConsoleState, canvas: Canvas) -> Iterator[Text]:
    """Yield the lines about everything; on other pages only why there is no newer look."""
    if not state.page.at and state.mode != "help":
        yield summary(look, canvas)
        yield from warning_lines(look, canvas)
    elif look.trouble is not None:
        yield Text(cut(clean(look.trouble, canvas.glyphs), canvas.width, canvas.glyphs), "bold red")


def _body(look: Look, state: ConsoleState, canvas: Canvas) -> list[Section]:
    if state.mode == "help":
        return [_help(canvas)]
    pages = (_first_page, _group_page, _group_page, _partition_page, _unit_page)
    return pages[len(state.page.at)](look, state, canvas)


def _first_page(look: Look, state: ConsoleState, canvas: Canvas) -> list[Section]:
    third = 8 if canvas.height is None else max(3, canvas.height // 3)
    sections = [
        _groups(look, state, canvas, least=third),
        _partitions(look, state, canvas, least=5),
        _members(look, canvas),
    ]
    errors, news = error_lines(look, (), canvas), news_lines(look, canvas)
    if errors:
        sections.append(_listed("last errors", errors))
    if news:
        sections.append(_listed("lately", news))
    return sections


def _group_page(look: Look, state: ConsoleState, canvas: Canvas) -> list[Section]:
    """Show the group on a line, its partitions, and their errors."""
    at = state.page.at
    own = [line for line in look.groups if line.key == at]
    if not own:
        return [_said("this group is not there any more")]
    errors = error_lines(look, at, canvas)
    return [
        Section(wanted=2, least=2, draw=lambda _: group_table(look, own, canvas)),
        _partitions(look, state, canvas, least=3),
        *([_listed("last errors", errors)] if errors else []),
    ]


def _partition_page(look: Look, state: ConsoleState, canvas: Canvas) -> list[Section]:
    """Show the partition on a line, why it has stopped, and the units set aside there."""
    own = [row for row in look.snapshot.partitions if row.key == state.page.at]
    if not own:
        return [_said("this partition is not there any more")]
    facts = [Text(line, "red") for line in wrapped(_why(own[0]), canvas.width, canvas.glyphs)]
    return [
        Section(wanted=2, least=2, draw=lambda _: partition_table(look, own, canvas)),
        *([_plain(facts, least=3)] if own[0].error or own[0].pause else []),
        _letters(look, state, canvas),
    ]


def _unit_page(look: Look, state: ConsoleState, canvas: Canvas) -> list[Section]:
    if look.text_at != state.page.at:
        return [_said("looking ...")]
    lines = text_lines(look, state, canvas)[state.page.scroll :]
    return [_plain([Text(line) for line in lines], least=len(lines))]


# -- sections -------------------------------------------------------------------------------------


def _groups(look: Look, state: ConsoleState, canvas: Canvas, least: int) -> Section:
    rows = group_rows(look, state)
    if not rows:
        return _said(_nothing(state, "no group consumes anything yet"))
    chosen = _chosen(look, state)

    def lines(room: int) -> list[Text]:
        shown = window(len(rows), chosen or 0, room - 1)
        cursor = None if chosen is None else chosen - shown.start
        drawn = group_table(look, rows[shown.start : shown.stop], canvas, cursor)
        more = len(rows) - len(shown)
        return drawn + ([_more(f"{some(more, 'more group')}", canvas)] if more else [])

    return Section(wanted=1 + len(rows), least=min(least, 1 + len(rows)), draw=lines)


def _partitions(look: Look, state: ConsoleState, canvas: Canvas, least: int) -> Section:
    """Rows of a group, with one chosen; on the first page those of all, the laggards first."""
    is_list = len(state.page.at) == 2
    rows = partition_rows(look, state)
    if not rows:
        return _said(_nothing(state, "no partition") if is_list else "")
    chosen = _chosen(look, state) if is_list else None

    def lines(room: int) -> list[Text]:
        shown = window(len(rows), chosen or 0, room - 1)
        cursor = None if chosen is None else chosen - shown.start
        part = rows[shown.start : shown.stop]
        drawn = partition_table(look, part, canvas, cursor, of_one_group=is_list)
        hidden = [*rows[: shown.start], *rows[shown.stop :]]
        return drawn + ([fold(hidden, canvas.glyphs)] if hidden else [])

    return Section(wanted=1 + len(rows), least=min(least, 1 + len(rows)), draw=lines)


def _members(look: Look, canvas: Canvas) -> Section:
    members = look.snapshot.members
    if not members:
        return _said("no supervisor is running: start gapless run")

    def lines(room: int) -> list[Text]:
        shown = window(len(members), 0, room - 1)
        drawn = member_table(members[: shown.stop], canvas)
        more = len(members) - len(shown)
        return drawn + ([_more(f"{more} more", canvas)] if more else [])

    return Section(wanted=1 + len(members), least=min(3, 1 + len(members)), draw=lines)


def _letters(look: Look, state: ConsoleState, canvas: Canvas) -> Section:
    if look.letters_at != state.page.at:
        return _said("looking ...")
    rows = letter_rows(look, state)
    if not rows:
        return _said(_nothing(state, "nothing is set aside here"))
    chosen = _chosen(look, state) or 0
    now = look.snapshot.server.taken_ts

    def lines(room: int) -> list[Text]:
        shown = window(len(rows), chosen, room - 1)
        some_rows = rows[shown.start : shown.stop]
        drawn = letter_table(some_rows, now, canvas, chosen - shown.start)
        more = len(rows) - len(shown)
        return drawn + ([_more(f"{more} more", canvas)] if more else [])

    return Section(wanted=1 + len(rows), least=min(4, 1 + len(rows)), draw=lines)


def _help(canvas: Canvas) -> Section:
    lines = [
        *(f"{key:<10}  {what}" for key, what in HELP),
        "",
        *(f"{word:<10}  {what}" for word, what in WORDS),
    ]
    drawn = [Text(part) for line in lines for part in wrapped(line, canvas.width, canvas.glyphs)]
    return _plain(drawn, least=len(drawn))


def _listed(heading: str, lines: Sequence[Text]) -> Section:
    return _plain([Text(heading, "bold"), *lines], least=3)


def _said(text: str) -> Section:
    return _plain([Text(text, "yellow")] if text else [], least=1)


def _plain(lines: Sequence[Text], least: int) -> Section:
    return Section(
        wanted=len(lines), least=min(least, len(lines)), draw=lambda room: list(lines[:room])
    )


def _nothing(state: ConsoleState, otherwise: str) -> str:
    wanted = state.page.filter
    return f"no row with {clean(wanted)!r} in it: esc drops the filter" if wanted else otherwise


def _more(text: str, canvas: Canvas) -> Text:
    return Text(f"{canvas.glyphs.ellipsis} {text}", style="dim")


def _chosen(look: Look, state: ConsoleState) -> int | None:
    return chosen_index(row_names(look, state), state.page) if state.has_keys else None


def _why(row: Standing) -> str:
    """Say why a partition has stopped."""
    why = [row.error, None if row.pause is None else f"paused by {row.pause}"]
    return "\n".join(each for each in why if each)


# -- the last line --------------------------------------------------------------------------------


def _footer(state: ConsoleState, canvas: Canvas) -> list[Text]:
    """Return the last line: a question, the typed text, the last result, or the keys."""
    place, style = "/".join(map(str, state.page.at)), "dim"
    if state.asked is not None:
        *where, offset = state.asked
        place = clean("/".join(map(str, where)), canvas.glyphs)
        text, style = f"redrive {place}@{offset}? y yes, any other key no", "bold"
    elif state.mode == "filter":
        text, style = f"/{clean(state.page.filter, canvas.glyphs)}_", "bold"
    elif state.mode == "help":
        text = "any key goes back"
    elif state.said is not None:
        text, style = clean(state.said, canvas.glyphs), "bold"
    else:
        text = "  ".join(_keys(state))
    return [Text(cut(text, canvas.width, canvas.glyphs), style=style)] if text else []


def _keys(state: ConsoleState) -> Iterator[str]:
    """Yield the choices made with keys, and the keys of the page, the most useful first."""
    depth = len(state.page.at)
    sorts = depth < UNIT_DEPTH - 1
    if state.page.filter:
        yield f"only {clean(state.page.filter)!r}"
    if state.sort != "lag" and sorts:
        yield f"by {state.sort}"
    if state.has_keys and depth:
        yield "esc back"
    if state.way_out and (state.stays or not depth):
        yield state.way_out
    if state.has_keys:
        yield "? help"
        yield from [] if sorts else ["r redrive"]
        yield from ["enter open", "/ filter"] if depth < UNIT_DEPTH else []
        yield from ["s sort"] if sorts else []
