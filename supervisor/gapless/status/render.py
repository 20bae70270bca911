"""The screen: a snapshot and its history as a rich renderable that fits the terminal (pure).

From the top: what is true of everything, members, partitions, the last errors, what happened, the
keys. Readable at 80 columns; a wider terminal gets offsets and a longer course of the rate. Colour
never says anything that words do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from gapless.status.history import History
from gapless.status.snapshot import COUNT_MAX, Snapshot
from gapless.status.tables import Facts, fold, member_table, partition_table
from gapless.status.view import Shares, View, arrange, share
from gapless.status.words import ASCII, UNICODE, Glyphs, age, clean, count, counted, cut, rate, some

ERRORS_MAX = 12
NEWS_MAX = 100
OLD_TRANSACTION_S = 60.0
AIRY_FROM_HEIGHT = 32
SEPARATOR = "   "

_MODULE = re.compile(r"^(?:\w+\.)+(?=\w+:)")  # of an exception: its own name tells enough
_NEWS_STYLES = {"error": "red", "dead letter": "yellow", "hand-over": "cyan"}


def render(snapshot: Snapshot, history: History | None = None) -> RenderableType:
    """Return everything as one picture, as high as it needs; rates need a history."""
    return Screen(snapshot=snapshot, history=history)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """A rich renderable: rich asks it for lines once the width is known.

    history: None is a single look, without rates. trouble: why there is no newer snapshot. footer:
    the last line, such as the keys. height: it is folded to so many lines; None shows all. glyphs:
    None is what the terminal can show. time_zone: of the times shown; None is the viewer's.
    """

    snapshot: Snapshot
    history: History | None
    view: View = field(default_factory=View)
    trouble: str | None = None
    footer: str | None = None
    height: int | None = None
    glyphs: Glyphs | None = None
    time_zone: tzinfo | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        facts = Facts(
            snapshot=self.snapshot,
            history=self.history or History(),
            has_rates=self.history is not None,
            width=options.max_width,
            glyphs=self.glyphs or (ASCII if options.ascii_only else UNICODE),
        )
        head = [self._title(facts), _summary(facts), *self._warnings(facts)]
        errors = list(self._errors(facts)) if self._is_at_least(12) else []
        news = list(self._news(facts)) if self._is_at_least(16) else []
        room = self._room(len(head), len(errors), len(news))
        sections: list[list[Text | Table]] = [
            [*head],
            self._members(facts, room.members),
            self._partitions(facts, room.partitions),
        ]
        if errors:
            sections.append([Text("last errors", style="bold"), *errors[: room.errors]])
        if news:
            sections.append([Text("lately", style="bold"), *news[: room.news]])
        for n, section in enumerate(sections):
            yield from ([Text()] if n and self._gap else [])
            yield from section
        if self.footer:
            lines = sum(map(_lines, sections)) + self._gap * (len(sections) - 1) + 1
            # The keys stay on the last line of the screen.
            yield from [Text()] * (1 if self.height is None else max(0, self.height - lines))
            yield self._footer(facts)

    @property
    def _gap(self) -> int:
        """Blank lines between the sections; a small screen has none to spare."""
        return 1 if self._is_at_least(AIRY_FROM_HEIGHT) else 0

    def _is_at_least(self, height: int) -> bool:
        return self.height is None or self.height >= height

    def _room(self, head: int, errors: int, news: int) -> Shares:
        """Share out the lines that head, headings, blanks and footer leave."""
        wanted = Shares(
            members=len(self.snapshot.members),
            partitions=len(self.view.filter(self.snapshot)),
            errors=errors,
            news=news,
        )
        if self.height is None:
            return wanted
        sections = 2 + bool(errors) + bool(news)
        fixed = head + sections * (1 + self._gap) + (1 + self._gap if self.footer else 0)
        return share(self.height - fixed, wanted)

    def _members(self, facts: Facts, room: int) -> list[Text | Table]:
        members = self.snapshot.members
        if len(members) <= room or not members:
            return [member_table(facts, members)]
        shown = members[: max(1, room - 1)]
        more = f"{facts.glyphs.ellipsis} {len(members) - len(shown)} more"
        return [member_table(facts, shown), Text(more, style="dim")]

    def _partitions(self, facts: Facts, room: int) -> list[Text | Table]:
        page = arrange(self.snapshot, facts.history, self.view, room)
        table = partition_table(facts, page)
        return [table, fold(page.hidden, facts.glyphs)] if page.hidden else [table]

    def _title(self, facts: Facts) -> Text:
        server = self.snapshot.server
        clock = f"{server.taken_ts.astimezone(self.time_zone):%H:%M:%S}"
        room = facts.width - len(clock) - 2
        left = Text("gapless", style="bold")
        left.append(f"  {clean(self.snapshot.place, facts.glyphs)}", style="not bold")
        left.append(f"  PostgreSQL {server.version}", style="not bold dim")
        left.truncate(room, overflow="crop")
        left.append(" " * (facts.width - left.cell_len - len(clock)))
        left.append(clock, style="not bold dim" if self.trouble is None else "not bold red")
        return left

    def _warnings(self, facts: Facts) -> Iterator[Text]:
        """Say what somebody should do something about, the worst first."""
        warnings = [*([self.trouble] if self.trouble else []), *_conditions(self.snapshot)]
        for n, text in enumerate(warnings[:3]):
            style = "bold red" if n == 0 and self.trouble else "yellow"
            yield Text(cut(clean(text, facts.glyphs), facts.width, facts.glyphs), style=style)

    def _errors(self, facts: Facts) -> Iterator[Text]:
        """Yield what stops partitions, then the newest dead letters."""
        now = self.snapshot.server.taken_ts
        stopped = [row for row in self.snapshot.partitions if row.error is not None]
        for row in stopped[:ERRORS_MAX]:
            since = age((now - row.error_ts).total_seconds()) if row.error_ts else "?"
            yield _line(facts, f"{since} ago", row.name, row.error or "", "red")
        for letter in self.snapshot.letters[: max(0, ERRORS_MAX - len(stopped))]:
            since = age((now - letter.created_dt).total_seconds())
            where = f"{letter.name}@{letter.c_offset}"
            what = f"dead: {_MODULE.sub('', letter.error)}"
            yield _line(facts, f"{since} ago", where, what, "yellow")

    def _news(self, facts: Facts) -> Iterator[Text]:
        """Yield what happened, newest first; of one look, the cause before its consequences."""
        newest = sorted(facts.history.happenings, key=lambda each: each.ts, reverse=True)
        for happening in newest[:NEWS_MAX]:
            at = f"{happening.ts.astimezone(self.time_zone):%H:%M:%S}"
            text = Text(f"{at}  ", style="dim")
            said = cut(clean(happening.text, facts.glyphs), facts.width - len(at) - 2, facts.glyphs)
            text.append(said, style=f"not dim {_NEWS_STYLES.get(happening.kind, '')}")
            yield text

    def _footer(self, facts: Facts) -> Text:
        """Return the keys, and what was chosen with them."""
        sort = f"by {self.view.sort}" if self.view.sort != "auto" else None
        group = f"group {self.view.group_id}" if self.view.group_id else None
        chosen = "".join(SEPARATOR + word for word in (sort, group) if word)
        keys = cut(self.footer or "", max(0, facts.width - len(chosen)), facts.glyphs)
        return Text(cut(keys + chosen, facts.width, facts.glyphs), style="dim")


def _lines(section: Sequence[Text | Table]) -> int:
    """Count the lines of a section: a table has a heading, and each row is one line."""
    return sum(part.row_count + 1 if isinstance(part, Table) else 1 for part in section)


def _line(facts: Facts, since: str, where: str, what: str, style: str) -> Text:
    text = Text(f"{since:>9}  ", style="dim")
    text.append(f"{where}  ", style="not dim")
    text.append(clean(what, facts.glyphs), style=f"not dim {style}")
    if text.cell_len > facts.width:
        text.truncate(facts.width - len(facts.glyphs.ellipsis), overflow="crop")
        text.append(facts.glyphs.ellipsis)
    return text


def _summary(facts: Facts) -> Text:
    """Join the figures of the second line; the last ones give way on a narrow screen."""
    line = Text()
    for word in _figures(facts):
        part = Text(SEPARATOR if line else "").append_text(word)
        if line.cell_len + part.cell_len > facts.width:
            break
        line.append_text(part)
    return line


def _figures(facts: Facts) -> Iterable[Text]:
    """Yield the figures of the whole database, the most wanted first."""
    snapshot, history = facts.snapshot, facts.history
    state = snapshot.sequencer.state
    yield Text.assemble("sequencer ", (state, "bold red" if state == "nobody" else "bold"))
    behind = f" ({age(snapshot.lag_s)})" if snapshot.lag else ""
    yield Text.assemble("lag ", (count(snapshot.lag), "bold"), behind)
    if facts.has_rates:
        published = rate(history.published(), facts.glyphs)
        yield Text.assemble("published ", (published, "bold"), "/s")
    is_more = any(row.dead_letters >= COUNT_MAX for row in snapshot.partitions)
    dead = f"{count(snapshot.dead_letters)}{'+' if is_more else ''}"
    yield Text.assemble("dead ", (dead, "bold"))
    pending = snapshot.pending_events
    since = f" ({age(snapshot.pending_s)})" if pending else ""
    yield Text.assemble("pending ", ("?" if pending is None else counted(pending), "bold"), since)
    if facts.has_rates:
        yield Text.assemble("handled ", (rate(history.handled(), facts.glyphs), "bold"), "/s")
    yield Text.assemble("events ", (count(snapshot.events), "bold"))
    yield Text.assemble("sessions ", (count(snapshot.server.sessions), "bold"))


def _conditions(snapshot: Snapshot) -> Iterator[str]:
    server = snapshot.server
    if snapshot.sequencer.state == "nobody":
        yield "no sequencer: events get no offsets until a gapless run is there"
    if snapshot.sequencer.needs_rebase:
        yield "this log came from another server: its next sequencer run goes over all of it once"
    unserved = sum(1 for row in snapshot.partitions if row.state == "unserved")
    if unserved and snapshot.members:
        of_all = some(len(snapshot.partitions), "partition")
        have, them = ("has", "it") if unserved == 1 else ("have", "them")
        yield f"{unserved} of {of_all} {have} nobody to work on {them}"
    revoked = [member for member in snapshot.members if member.revoked_role is not None]
    yield from (f"{member.revoked}: {member.remedy}" for member in revoked)
    yield from map(str, snapshot.squatters)
    yield from map(str, snapshot.unrouted[:1])  # the most; gapless topics unrouted shows all
    yield from snapshot.later.problems()
    yield from map(str, snapshot.changes)
    for each in snapshot.held:
        yield f"retention waits: {each.reason}"
    paused = [row for row in snapshot.partitions if row.paused_ts is not None]
    if paused:
        groups = ", ".join(sorted({row.group_id for row in paused}))
        yield f"paused: {some(len(paused), 'partition')} of {groups}; gapless resume ends it"
    if snapshot.waiting or snapshot.parked:
        waiting, parked = snapshot.waiting, snapshot.parked
        wait = f"{some(waiting, 'event')} wait{'s' if waiting == 1 else ''} for another attempt"
        behind = f", {count(parked)} parked behind one" if parked else ""
        yield f"set aside: {wait}{behind}"
    if (server.oldest_transaction_s or 0.0) > OLD_TRANSACTION_S:
        who = server.oldest_transaction or "a client"
        yield f"{who}: transaction open for {age(server.oldest_transaction_s)}, holds back vacuum"
