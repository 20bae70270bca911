"""A snapshot as plain text: `gapless status` without --watch (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from gapless.status.document import to_document
from gapless.status.section import sections
from gapless.status.snapshot import Snapshot
from gapless.status.words import SEQUENCER, age, clean, counted

if TYPE_CHECKING:
    from gapless.status.view import Canvas

GAP = "  "
ROWS_MAX = 100  # of topics, and of partitions: the most important first
_NUMBERS = frozenset(
    {
        *("PARTITION", "EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "BEHIND", "DEAD"),
        *("PARTITIONS", "EVENTS", "PENDING", "ASSIGNED", "HEARTBEAT", "UP"),
    }
)

Row = Sequence[object]


def to_text(snapshot: Snapshot, *, canvas: Canvas | None = None) -> str:
    """Return the snapshot as unstyled tables.

    canvas: of a terminal, for the first picture of the live console. None (a pipe) cuts no line,
    has a column for each value and a dash for each missing one, for awk; of more than 100 topics or
    partitions it shows those that wait, have stopped or lost events.
    """
    if canvas is not None:
        return _fitted(snapshot, canvas)
    document = to_document(snapshot)
    topics, more_topics = _first(document["topics"], "topic", lambda row: row["pending"] or 0)
    partitions, more_partitions = _first(document["partitions"], "partition", _matter)
    parts = [
        _heading(snapshot),
        _table(
            ("TOPIC", "PARTITIONS", "EVENTS", "PENDING"),
            [
                (row["topic"], row["partition_count"], row["events"], row["pending"])
                for row in topics
            ],
        ),
        more_topics,
        _table(
            (
                *("GROUP", "TOPIC", "PARTITION", "MEMBER", "EPOCH", "CURRENT-OFFSET"),
                *("LOG-END-OFFSET", "LAG", "BEHIND", "DEAD", "STATE", "ERROR"),
            ),
            [
                (
                    *(row["group"], row["topic"], row["partition"], row["member"], row["epoch"]),
                    *(row["current_offset"], row["log_end_offset"], row["lag"], age(row["lag_s"])),
                    *(counted(row["dead_letters"]).replace(",", ""), row["state"], _why(row)),
                )
                for row in partitions
            ],
        ),
        more_partitions,
        _members(snapshot),
        *_beside(snapshot),
    ]
    return "\n".join(part for part in parts if part)


def _first(
    rows: Sequence[dict[str, Any]], noun: str, matter: Callable[[dict[str, Any]], Any]
) -> tuple[Sequence[dict[str, Any]], str]:
    """Return the rows to show, and a line about the others, if there are any."""
    if len(rows) <= ROWS_MAX:
        return rows, ""
    more = f"and {len(rows) - ROWS_MAX} more {noun}s: gapless status --json\n"
    return sorted(rows, key=matter, reverse=True)[:ROWS_MAX], more


def _matter(row: dict[str, Any]) -> tuple[object, ...]:
    """Return the sort key of a partition: its error, its losses, its lag."""
    return row["error"] is not None, row["dead_letters"], row["lag"]


def _beside(snapshot: Snapshot) -> list[str]:
    """Return the parts that few installations have: captures, filters, schemas and so on."""
    return [
        _table(each.head, list(map(each.cells, snapshot.beside.get(each.record, ()))), each.numbers)
        for each in sorted(sections(), key=lambda each: each.rank.table)
        if each.cells is not None
    ]


def _fitted(snapshot: Snapshot, canvas: Canvas) -> str:
    from gapless.status.draw import draw  # noqa: PLC0415 - a pipe needs none of it
    from gapless.status.view import ConsoleState, Look  # noqa: PLC0415 - as above

    state = ConsoleState(has_keys=False, way_out="")
    lines = draw(Look(snapshot=snapshot), state, canvas)
    return "".join(f"{line.plain.rstrip()}\n" for line in lines)


def _heading(snapshot: Snapshot) -> str:
    server, sequencer = snapshot.server, snapshot.sequencer
    pending = snapshot.pending_events
    waiting = f"{'?' if pending is None else counted(pending)} pending"
    if pending:
        waiting += f" ({age(snapshot.pending_s)})"
    place = f"database {clean(snapshot.place)}, PostgreSQL {server.version}"
    at = f"{server.taken_ts.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    lag = f"lag {snapshot.lag} ({age(snapshot.lag_s)}), dead {_dead(snapshot)}"
    if snapshot.waiting or snapshot.parked:
        lag += f", waiting {snapshot.waiting}, parked {snapshot.parked}"
    return f"{place}, {at}\n{lag}\nsequencer {SEQUENCER[sequencer.state]}, {waiting}\n"


def _dead(snapshot: Snapshot) -> str:
    """Count dead units, and add the number of their events if it is larger."""
    units, events = snapshot.dead_letters, snapshot.dead_events
    return f"{units} ({events} events)" if events > units else str(units)


def _why(row: dict[str, Any]) -> str | None:
    """Say why a partition has stopped."""
    if row["error"] is None and row["pause"] is not None:
        return f"paused by {row['pause']}"
    return None if row["error"] is None else str(row["error"])


def _members(snapshot: Snapshot) -> str:
    rows = [
        (
            *(member.name, member.condition, member.kind, member.owned, member.wanted),
            *(age(member.beat_s), age(member.up_s)),
            ",".join(sorted({group.split("/")[0] for group in member.groups})),
        )
        for member in snapshot.members
    ]
    head = ("MEMBER", "STATE", "KIND", "PARTITIONS", "ASSIGNED", "HEARTBEAT", "UP", "GROUPS")
    return _table(head, rows)


def _table(head: Sequence[str], rows: Sequence[Row], numbers: frozenset[str] = _NUMBERS) -> str:
    """Lay out one table; without rows there is none."""
    if not rows:
        return ""
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(cell_len(line[n]) for line in cells) for n in range(len(head))]
    return "\n".join(_lines(head, cells, widths, numbers)) + "\n"


def _lines(
    head: Sequence[str],
    cells: Sequence[list[str]],
    widths: Sequence[int],
    numbers: frozenset[str],
) -> Iterator[str]:
    for line in cells:
        padded = []
        for name, text, width in zip(head, line, widths, strict=True):
            blanks = " " * (width - cell_len(text))
            padded.append(blanks + text if name in numbers else text + blanks)
        yield GAP.join(padded).rstrip()


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else clean(str(value))
