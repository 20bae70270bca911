"""The screen: a snapshot and its history as a rich renderable that fits the terminal (pure).

From the top: what is true of everything, members, partitions, the last errors, what happened, the
keys. Readable at 80 columns; a wider terminal gets offsets and a longer course of the rate. Colour
never says anything that words do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import tzinfo

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from gapless.status.history import History
from gapless.status.snapshot import Snapshot
from gapless.status.tables import Facts, fold, member_table, partition_table
from gapless.status.view import View, Wanted, arrange, share
from gapless.status.words import ASCII, UNICODE, age, clean, count, counted, cut, rate

ERRORS_MAX = 12
NEWS_MAX = 100
OLD_TRANSACTION_S = 60.0
SEPARATOR = "   "

_NEWS_STYLES = {"error": "red", "dead letter": "yellow", "hand-over": "cyan"}


def render(
    snapshot: Snapshot,
    history: History | None = None,
    view: View | None = None,
    *,
    trouble: str | None = None,
    footer: str | None = None,
    time_zone: tzinfo | None = None,
) -> RenderableType:
    """Return the screen; it folds what exceeds the height it is given, if it is given one.

    trouble: why there is no newer snapshot. footer: the last line, such as the keys. time_zone: of
    the times shown; None is the viewer's.
    """
    return Screen(
        snapshot=snapshot,
        history=history or History(),
        view=view or View(),
        trouble=trouble,
        footer=footer,
        time_zone=time_zone,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What `render` returns: rich asks it for lines once the size is known."""

    snapshot: Snapshot
    history: History
    view: View = field(default_factory=View)
    trouble: str | None = None
    footer: str | None = None
    time_zone: tzinfo | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        facts = Facts(
            snapshot=self.snapshot,
            history=self.history,
            width=options.max_width,
            glyphs=ASCII if options.ascii_only else UNICODE,
        )
        head = [self._title(facts), _summary(facts), *self._warnings(facts)]
        errors, news = list(self._errors(facts)), list(self._news(facts))
        room = self._room(len(head), options.height, Wanted(
            members=len(self.snapshot.members),
            partitions=len(self.snapshot.partitions),
            errors=len(errors),
            news=len(news),
        ))
        yield from head
        yield Text()
        members = self.snapshot.members
        shown = members if len(members) <= room.members else members[: room.members - 1]
        yield member_table(facts, shown)
        if len(shown) < len(members):
            more = f"{facts.glyphs.ellipsis} {len(members) - len(shown)} more"
            yield Text(more, style="dim")
        yield Text()
        page = arrange(self.snapshot, self.history, self.view, room.partitions)
        yield partition_table(facts, page)
        if page.hidden:
            yield fold(page.hidden, facts.glyphs)
        if room.errors and errors:
            yield from (Text(), Text("last errors", style="bold"), *errors[: room.errors])
        if room.news and news:
            yield from (Text(), Text("lately", style="bold"), *news[: room.news])
        if self.footer:
            yield from (Text(), self._footer(facts))

    def _room(self, head: int, height: int | None, wanted: Wanted) -> Wanted:
        """Share out the lines below the heading, less headings and blanks between the parts."""
        if height is None:
            return wanted
        fixed = head + 4  # a blank and a heading for each of the two tables
        fixed += (2 if wanted.errors else 0) + (2 if wanted.news else 0) + (2 if self.footer else 0)
        return share(height - fixed, wanted)

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
            where = f"{letter.name} offset {letter.c_offset}"
            yield _line(facts, f"{since} ago", where, f"dead letter: {letter.error}", "yellow")

    def _news(self, facts: Facts) -> Iterator[Text]:
        """Yield what happened, newest first."""
        for happening in list(reversed(self.history.happenings))[:NEWS_MAX]:
            at = f"{happening.ts.astimezone(self.time_zone):%H:%M:%S}"
            text = Text(f"{at}  ", style="dim")
            said = cut(clean(happening.text, facts.glyphs), facts.width - len(at) - 2, facts.glyphs)
            text.append(said, style=f"not dim {_NEWS_STYLES.get(happening.kind, '')}")
            yield text

    def _footer(self, facts: Facts) -> Text:
        chosen = f"sorted by {self.view.sort}" if self.view.sort != "auto" else ""
        group = f"group {self.view.group_id}" if self.view.group_id else ""
        said = ", ".join(word for word in (chosen, group) if word)
        text = f"{self.footer}{SEPARATOR}{said}" if said else self.footer or ""
        return Text(cut(text, facts.width, facts.glyphs), style="dim")


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
    yield Text.assemble("published ", (rate(history.published(), facts.glyphs), "bold"), "/s")
    yield Text.assemble("dead ", (count(snapshot.dead_letters), "bold"))
    pending = snapshot.pending_events
    yield Text.assemble("pending ", ("?" if pending is None else counted(pending), "bold"))
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
        yield f"{unserved} of {len(snapshot.partitions)} partitions have nobody to work on them"
    if (server.oldest_transaction_s or 0.0) > OLD_TRANSACTION_S:
        who = server.oldest_transaction or "a client"
        yield f"{who}: transaction open for {age(server.oldest_transaction_s)}, holds back vacuum"
