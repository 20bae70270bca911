"""The console's single lines: title, overall figures, warnings, errors, news (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter

from rich.text import Text

from gapless.status.fitted import cut
from gapless.status.problems import problems
from gapless.status.section import StatusProblem
from gapless.status.snapshot import COUNT_MAX, Snapshot, Standing
from gapless.status.view import At, Canvas, ConsoleState, Look
from gapless.status.words import SEQUENCER, age, clean, count, counted, rate, some

ERRORS_MAX = 12
NEWS_MAX = 100
WIDE = 100  # a narrower screen shows no age of pending events
WARNINGS_MAX = 3
SEPARATOR = "   "

_SAYS_AGE = re.compile(r"\bfor \d")
_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+:)")  # of an exception: its own name is enough
_NEWS_STYLES = {"error": "red", "dead letter": "yellow", "hand-over": "cyan"}


def title(look: Look, state: ConsoleState, canvas: Canvas) -> Text:
    """Return the name of the console and the page, and the time of the look."""
    server, glyphs = look.snapshot.server, canvas.glyphs
    clock = f"{server.taken_ts.astimezone(canvas.time_zone):%H:%M:%S}"
    room = max(0, canvas.width - len(clock) - 2)
    left = Text("gapless", style="bold")
    *where, last = state.page.at or ("",)
    if where:
        at = "/".join(map(str, where)) + ("@" if len(where) == 3 else "/") + str(last)
        left.append(f"  {clean(at, glyphs)}")
    left.append(f"  database {clean(look.snapshot.place, glyphs)}", style="not bold")
    left.append(f"  PostgreSQL {clean(server.version, glyphs)}", style="not bold dim")
    left.truncate(room, overflow="crop")
    between = canvas.width - left.cell_len - len(clock) if state.has_keys else 2
    left.append(" " * max(0, between))
    left.append(clock, style="not bold dim" if look.trouble is None else "not bold red")
    return left


def summary(look: Look, canvas: Canvas) -> Text:
    """Return one line about everything; where it is narrow, without the least useful figures."""
    figures = list(_figures(look, canvas))
    while (
        len(figures) > 1 and len(SEPARATOR.join(text.plain for _, text in figures)) > canvas.width
    ):
        figures.remove(max(figures, key=itemgetter(0)))
    return Text(SEPARATOR).join(text for _, text in figures)


def _figures(look: Look, canvas: Canvas) -> Iterator[tuple[int, Text]]:
    """Yield the figures of the whole database, each with its rank: the most useful is 0."""
    history, totals, snapshot = look.history, look.snapshot.totals, look.snapshot
    behind = f" ({age(totals.lag_s)})" if totals.lag else ""
    yield 0, Text.assemble("lag ", (count(totals.lag), "bold"), behind)
    if history is not None:
        published = rate(history.published(), canvas.glyphs)
        yield 1, Text.assemble("published ", (published, "bold"), "/s")
    is_more = any(row.dead_letters >= COUNT_MAX for row in snapshot.partitions)
    dead = f"{count(totals.dead_letters)}{'+' if is_more else ''}"
    events = totals.dead_events
    more = f" ({count(events)} events)" if events > totals.dead_letters else ""
    yield 2, Text.assemble("dead ", (dead, "bold"), more)
    if history is not None:
        handled = rate(history.handled(), canvas.glyphs)
        yield 4, Text.assemble("handled ", (handled, "bold"), "/s")
    yield 5, Text.assemble("events ", (count(totals.events), "bold"))
    yield 3, _sequencer(snapshot, canvas)
    retention = ("waiting", "bold yellow") if snapshot.held else ("idle", "bold")
    kept = f", {some(snapshot.chunks, 'chunk')}" if snapshot.chunks else ""
    yield 6, Text.assemble("retention ", retention, kept)
    yield 7, Text.assemble("sessions ", (count(snapshot.server.sessions), "bold"))


def _sequencer(snapshot: Snapshot, canvas: Canvas) -> Text:
    state, pending = snapshot.sequencer.state, snapshot.totals.pending
    is_wide = canvas.width >= WIDE
    since = f" ({age(snapshot.totals.pending_s)})" if pending and is_wide else ""
    return Text.assemble(
        "sequencer ",
        (SEQUENCER[state], "bold red" if state == "nobody" else "bold"),
        f", {'?' if pending is None else counted(pending)} pending{since}",
    )


def warning_lines(look: Look, canvas: Canvas) -> Iterator[Text]:
    """Yield the problems that a person should act on: the worst ones, where lines are few."""
    if look.trouble is not None:
        yield _said(look.trouble, "bold red", canvas)
    found = problems(look.snapshot)
    shown = found if canvas.height is None else found[:WARNINGS_MAX]
    for each in shown:
        yield _said(_with_age(each), "red" if each.is_bad else "yellow", canvas)
    if more := len(found) - len(shown):
        yield Text(f"{canvas.glyphs.ellipsis} {some(more, 'more problem')}", style="dim")


def _with_age(each: StatusProblem) -> str:
    if each.since_s is None or _SAYS_AGE.search(each.problem):
        return str(each)
    return f"{each.problem}, for {age(each.since_s)}: {each.remedy}"


def _said(text: str, style: str, canvas: Canvas) -> Text:
    return Text(cut(clean(text, canvas.glyphs), canvas.width, canvas.glyphs), style=style)


def error_lines(look: Look, at: At, canvas: Canvas) -> list[Text]:
    """Return the errors of a page's partitions, then the newest dead letters: a line for each.

    On the first page the stopped partitions of a group are one line, with the newest error.
    """
    now = look.snapshot.server.taken_ts
    stopped: dict[At, list[Standing]] = {}
    for row in look.snapshot.partitions:
        if row.error is not None and row.key[: len(at)] == at:
            stopped.setdefault(row.key if at else row.key[:2], []).append(row)
    lines = []
    for rows in list(stopped.values())[:ERRORS_MAX]:
        newest = max(rows, key=lambda row: row.error_ts.timestamp() if row.error_ts else 0.0)
        since = age((now - newest.error_ts).total_seconds()) if newest.error_ts else "?"
        where, of = newest.name, ""
        if len(rows) > 1:
            where, of = "/".join(newest.key[:2]), f"{some(len(rows), 'partition')}: "
        lines.append(_line(canvas, since, where, f"{of}{newest.error}", "red"))
    letters = [
        each for each in look.snapshot.letters if (each.group_id, each.topic)[: len(at)] == at
    ]
    for letter in letters[: max(0, ERRORS_MAX - len(stopped))]:
        since = age((now - letter.last_failed_ts).total_seconds())
        tries = f", {some(letter.attempts, 'attempt')}" if letter.attempts > 1 else ""
        what = f"dead{tries}: {_MODULE.sub('', letter.error)}"
        lines.append(_line(canvas, since, f"{letter.name}@{letter.first_offset}", what, "yellow"))
    return lines


def _line(canvas: Canvas, since: str, where: str, what: str, style: str) -> Text:
    text = Text(f"{since + ' ago':>9}  ", style="dim")
    text.append(f"{clean(where, canvas.glyphs)}  ", style="not dim")
    text.append(clean(what, canvas.glyphs), style=f"not dim {style}")
    if text.cell_len > canvas.width:
        text.truncate(max(0, canvas.width - len(canvas.glyphs.ellipsis)), overflow="crop")
        text.append(canvas.glyphs.ellipsis)
    return text


def news_lines(look: Look, canvas: Canvas) -> list[Text]:
    """Return the news, newest first; of one look, the cause before its consequences."""
    if look.history is None:
        return []
    newest = sorted(look.history.happenings, key=lambda each: each.ts, reverse=True)
    lines = []
    for happening in newest[:NEWS_MAX]:
        at = f"{happening.ts.astimezone(canvas.time_zone):%H:%M:%S}"
        text = Text(f"{at}  ", style="dim")
        room = max(1, canvas.width - len(at) - 2)
        said = cut(clean(happening.text, canvas.glyphs), room, canvas.glyphs)
        text.append(said, style=f"not dim {_NEWS_STYLES.get(happening.kind, '')}")
        lines.append(text)
    return lines
