"""A snapshot as plain text: `gapless status` without --watch (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any, TypeVar

from gapless.status.document import topic_rows
from gapless.status.section import sections
from gapless.status.snapshot import Snapshot, Standing
from gapless.status.words import SEQUENCER, age, clean, counted, table

if TYPE_CHECKING:
    from gapless.status.view import Canvas

ROWS_MAX = 100  # of topics, and of partitions: the most important first
_NUMBERS = frozenset(
    {
        *("PARTITION", "EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "BEHIND", "DEAD"),
        *("PARTITIONS", "EVENTS", "PENDING", "ASSIGNED", "HEARTBEAT", "UP"),
    }
)

Shown = TypeVar("Shown")


def to_text(snapshot: Snapshot, *, canvas: Canvas | None = None) -> str:
    """Return the snapshot as unstyled tables.

    canvas: of a terminal, for the first picture of the live console. None (a pipe) cuts no line,
    has a column for each value and a dash for each missing one, for awk; of more than 100 topics or
    partitions it shows those that wait, have stopped or lost events.
    """
    if canvas is not None:
        return _fitted(snapshot, canvas)
    topics, more_topics = _first(topic_rows(snapshot), "topic", lambda row: row["pending"] or 0)
    partitions, more_partitions = _first(snapshot.partitions, "partition", _matter)
    parts = [
        _heading(snapshot),
        table(
            ("TOPIC", "PARTITIONS", "EVENTS", "PENDING"),
            [
                (row["topic"], row["partition_count"], row["events"], row["pending"])
                for row in topics
            ],
            _NUMBERS,
        ),
        more_topics,
        table(
            (
                *("GROUP", "TOPIC", "PARTITION", "MEMBER", "EPOCH", "CURRENT-OFFSET"),
                *("LOG-END-OFFSET", "LAG", "BEHIND", "DEAD", "STATE", "ERROR"),
            ),
            [
                (
                    *(row.group_id, row.topic, row.partition_id, row.owner, row.epoch),
                    *(row.next_offset, row.last_offset + 1, row.lag, age(row.lag_s)),
                    *(counted(row.dead_letters).replace(",", ""), row.state, _why(row)),
                )
                for row in partitions
            ],
            _NUMBERS,
        ),
        more_partitions,
        _members(snapshot),
        *_beside(snapshot),
    ]
    return "\n".join(part for part in parts if part)


def _first(
    rows: Sequence[Shown], noun: str, matter: Callable[[Shown], Any]
) -> tuple[Sequence[Shown], str]:
    """Return the rows to show, and a line about the others, if there are any."""
    if len(rows) <= ROWS_MAX:
        return rows, ""
    more = f"and {len(rows) - ROWS_MAX} more {noun}s: gapless status --json\n"
    return sorted(rows, key=matter, reverse=True)[:ROWS_MAX], more


def _matter(row: Standing) -> tuple[object, ...]:
    """Return the sort key of a partition: its error, its losses, its lag."""
    return row.error is not None, row.dead_letters, row.lag


def _beside(snapshot: Snapshot) -> list[str]:
    """Return the parts that few installations have: captures, filters, schemas and so on."""
    return [
        table(each.head, list(map(each.cells, snapshot.beside.get(each.record, ()))), each.numbers)
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
    server, sequencer, totals = snapshot.server, snapshot.sequencer, snapshot.totals
    waiting = f"{'?' if totals.pending is None else counted(totals.pending)} pending"
    if totals.pending:
        waiting += f" ({age(totals.pending_s)})"
    place = f"database {clean(snapshot.place)}, PostgreSQL {server.version}"
    at = f"{server.taken_ts.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    units, events = totals.dead_letters, totals.dead_events
    dead = f"{units} ({events} events)" if events > units else str(units)
    lag = f"lag {totals.lag} ({age(totals.lag_s)}), dead {dead}"
    if totals.waiting or totals.parked:
        lag += f", waiting {totals.waiting}, parked {totals.parked}"
    return f"{place}, {at}\n{lag}\nsequencer {SEQUENCER[sequencer.state]}, {waiting}\n"


def _why(row: Standing) -> str | None:
    """Say why a partition has stopped."""
    return f"paused by {row.pause}" if row.error is None and row.pause is not None else row.error


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
    return table(head, rows, _NUMBERS)
