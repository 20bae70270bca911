"""The console's single lines: title, overall figures, warnings, errors, news (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from operator import itemgetter

from rich.text import Text

from gapless.status.section import UNROUTED_AS_PROBLEM, sections
from gapless.status.snapshot import COUNT_MAX, Snapshot
from gapless.status.unsequenced import unsequenced
from gapless.status.view import At, Canvas, ConsoleState, Look
from gapless.status.words import SEQUENCER, age, clean, count, counted, cut, rate, some

ERRORS_MAX = 12
NEWS_MAX = 100
WARNINGS_MAX = 3
OLD_TRANSACTION_S = 60.0
SEPARATOR = "   "

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
    left.append(" " * max(0, canvas.width - left.cell_len - len(clock)))
    left.append(clock, style="not bold dim" if look.trouble is None else "not bold red")
    return left


def summary(look: Look, canvas: Canvas) -> Iterator[Text]:
    """Yield two lines: the progress of all groups; the sequencer, retention and the server."""
    yield _joined(_figures(look, canvas), canvas)
    yield _joined(_machinery(look), canvas)


def _joined(words: Iterable[Text], canvas: Canvas) -> Text:
    """Join figures; the last ones are left out on a narrow screen."""
    line = Text()
    for word in words:
        part = Text(SEPARATOR if line else "").append_text(word)
        if line.cell_len + part.cell_len > canvas.width:
            break
        line.append_text(part)
    return line


def _figures(look: Look, canvas: Canvas) -> Iterator[Text]:
    """Yield the figures of the whole database, the most useful first."""
    history, totals = look.history, look.snapshot.totals
    behind = f" ({age(totals.lag_s)})" if totals.lag else ""
    yield Text.assemble("lag ", (count(totals.lag), "bold"), behind)
    if history is not None:
        yield Text.assemble("published ", (rate(history.published(), canvas.glyphs), "bold"), "/s")
    is_more = any(row.dead_letters >= COUNT_MAX for row in look.snapshot.partitions)
    dead = f"{count(totals.dead_letters)}{'+' if is_more else ''}"
    events = totals.dead_events
    more = f" ({count(events)} events)" if events > totals.dead_letters else ""
    yield Text.assemble("dead ", (dead, "bold"), more)
    if history is not None:
        yield Text.assemble("handled ", (rate(history.handled(), canvas.glyphs), "bold"), "/s")
    yield Text.assemble("events ", (count(totals.events), "bold"))


def _machinery(look: Look) -> Iterator[Text]:
    snapshot = look.snapshot
    state = snapshot.sequencer.state
    pending = snapshot.totals.pending
    since = f" ({age(snapshot.totals.pending_s)})" if pending else ""
    yield Text.assemble(
        "sequencer ",
        (SEQUENCER[state], "bold red" if state == "nobody" else "bold"),
        f", {'?' if pending is None else counted(pending)} pending{since}",
    )
    retention = ("waiting", "bold yellow") if snapshot.held else ("idle", "bold")
    chunks = snapshot.chunks
    kept = f", {some(chunks, 'chunk')}" if chunks else ""
    yield Text.assemble("retention ", retention, kept)
    yield Text.assemble("sessions ", (count(snapshot.server.sessions), "bold"))


def warning_lines(look: Look, canvas: Canvas) -> Iterator[Text]:
    """Yield the worst of the problems that a person should act on."""
    warnings = [*([look.trouble] if look.trouble else []), *conditions(look.snapshot)]
    for n, text in enumerate(warnings[:WARNINGS_MAX]):
        style = "bold red" if n == 0 and look.trouble else "yellow"
        yield Text(cut(clean(text, canvas.glyphs), canvas.width, canvas.glyphs), style=style)


def conditions(snapshot: Snapshot) -> Iterator[str]:
    """Yield the problems that a person should act on, the worst first."""
    server = snapshot.server
    if snapshot.sequencer.state == "nobody":
        waits = unsequenced(snapshot.sequencer, snapshot.pending)
        yield waits or "no sequencer: events get no offsets until a gapless run is there"
    if snapshot.sequencer.needs_rebase:
        yield "this log came from another server: its next sequencer run goes over all of it once"
    unserved = sum(1 for row in snapshot.partitions if row.state == "unserved")
    if unserved and snapshot.members:
        of_all = some(len(snapshot.partitions), "partition")
        have, them = ("has", "it") if unserved == 1 else ("have", "them")
        yield f"{unserved} of {of_all} {have} no supervisor to work on {them}"
    revoked = [member for member in snapshot.members if member.revoked_role is not None]
    yield from (f"{member.revoked}: {member.remedy}" for member in revoked)
    yield from map(str, snapshot.foreign_locks)
    yield from map(str, snapshot.obstacles)
    yield from _beside(snapshot)
    yield from map(str, snapshot.changes)
    for each in snapshot.held:
        yield f"retention waits: {each.reason}"
    paused = [row for row in snapshot.partitions if row.paused_ts is not None]
    if paused:
        groups = ", ".join(sorted({row.group_id for row in paused}))
        yield f"paused: {some(len(paused), 'partition')} of {groups}; gapless resume ends it"
    totals = snapshot.totals
    if totals.waiting or totals.parked:
        yield f"set aside: {_set_aside(totals.waiting, totals.parked)}"
    if (server.oldest_transaction_s or 0.0) > OLD_TRANSACTION_S:
        who = server.oldest_transaction or "a client"
        yield f"{who}: transaction open for {age(server.oldest_transaction_s)}, holds back vacuum"


def _beside(snapshot: Snapshot) -> Iterator[str]:
    """Yield problems of features, and those of events without a topic among them."""
    # Only the largest; gapless topics unrouted shows all.
    unrouted = map(str, snapshot.unrouted[:1])
    ranked: list[tuple[int, Iterable[str]]] = [
        (UNROUTED_AS_PROBLEM, unrouted),
        *(
            (each.rank.problem, each.problems(snapshot.of(each.record)))
            for each in sections()
            if each.problems is not None
        ),
    ]
    for _, problems in sorted(ranked, key=itemgetter(0)):
        yield from problems


def _set_aside(waiting: int, parked: int) -> str:
    if not waiting:
        return f"{some(parked, 'unit')} parked behind a dead one of their key"
    wait = f"{some(waiting, 'unit')} wait{'s' if waiting == 1 else ''} for another attempt"
    return wait + (f", {count(parked)} parked behind one" if parked else "")


def error_lines(look: Look, at: At, canvas: Canvas) -> list[Text]:
    """Return the errors of a page's partitions, then the newest dead letters."""
    now = look.snapshot.server.taken_ts
    stopped = [
        row
        for row in look.snapshot.partitions
        if row.error is not None and row.key[: len(at)] == at
    ]
    lines = []
    for row in stopped[:ERRORS_MAX]:
        since = age((now - row.error_ts).total_seconds()) if row.error_ts else "?"
        lines.append(_line(canvas, since, row.name, row.error or "", "red"))
    letters = [
        each for each in look.snapshot.letters if (each.group_id, each.topic)[: len(at)] == at
    ]
    for letter in letters[: max(0, ERRORS_MAX - len(stopped))]:
        since = age((now - letter.last_failed_ts).total_seconds())
        what = f"dead: {_MODULE.sub('', letter.error)}"
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
