"""A snapshot as plain text: `gapless status` without --watch, and in pipes (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC

from rich.cells import cell_len

from gapless.status.document import to_document
from gapless.status.snapshot import Snapshot
from gapless.status.words import age, clean, counted, fit, shorten

GAP = "  "
_NUMBERS = frozenset(
    {
        *("PARTITION", "EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "BEHIND", "DEAD"),
        *("PARTITIONS", "EVENTS", "PENDING", "ASSIGNED", "HEARTBEAT", "UP"),
    }
)

Row = Sequence[object]


def to_text(snapshot: Snapshot, *, width: int | None = None) -> str:
    """Return the snapshot as unstyled tables, in columns that awk and people can read.

    width: of the terminal, names give way to fit it; None (a pipe) cuts nothing.
    """
    document = to_document(snapshot)
    parts = [
        _heading(snapshot),
        _table(
            ("TOPIC", "PARTITIONS", "EVENTS", "PENDING"),
            [
                (row["topic"], len(row["partitions"]), row["events"], row["pending"])
                for row in document["topics"]
            ],
            width,
        ),
        _members(snapshot, width),
        _table(
            (
                *("GROUP", "TOPIC", "PARTITION", "MEMBER", "EPOCH", "CURRENT-OFFSET"),
                *("LOG-END-OFFSET", "LAG", "BEHIND", "DEAD", "STATE", "ERROR"),
            ),
            [
                (
                    *(row["group"], row["topic"], row["partition"], row["member"], row["epoch"]),
                    *(row["current_offset"], row["log_end_offset"], row["lag"], age(row["lag_s"])),
                    *(counted(row["dead_letters"]).replace(",", ""), row["state"], row["error"]),
                )
                for row in document["partitions"]
            ],
            width,
        ),
    ]
    return "\n".join(part for part in parts if part)


def _heading(snapshot: Snapshot) -> str:
    server, sequencer = snapshot.server, snapshot.sequencer
    pending = snapshot.pending_events
    waiting = "unknown" if pending is None else counted(pending)
    place = f"gapless {clean(snapshot.place)}, PostgreSQL {server.version}"
    at = f"{server.taken_ts.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    lag = f"lag {snapshot.lag} ({age(snapshot.lag_s)}), dead letters {snapshot.dead_letters}"
    return f"{place}, {at}\nsequencer {sequencer.state}, pending {waiting}, {lag}\n"


def _members(snapshot: Snapshot, width: int | None) -> str:
    rows = [
        (
            *(member.name, member.condition, member.owned, member.wanted),
            *(age(member.beat_s), age(member.up_s)),
            ",".join(sorted({group.split("/")[0] for group in member.groups})),
        )
        for member in snapshot.members
    ]
    head = ("MEMBER", "STATE", "PARTITIONS", "ASSIGNED", "HEARTBEAT", "UP", "GROUPS")
    return _table(head, rows, width)


def _table(head: Sequence[str], rows: Sequence[Row], width: int | None) -> str:
    """Lay out one table; without rows there is none."""
    if not rows:
        return ""
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(cell_len(line[n]) for line in cells) for n in range(len(head))]
    if width is not None:
        widths = _narrow(head, widths, width - len(GAP) * (len(head) - 1))
    return "\n".join(_lines(head, cells, widths)) + "\n"


def _narrow(head: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """Make the columns of words narrower until the table fits; figures stay whole."""
    words = [n for n, name in enumerate(head) if name not in _NUMBERS]
    fixed = sum(width for n, width in enumerate(widths) if n not in words)
    fitted = fit([widths[n] for n in words], room - fixed)
    narrowed = list(widths)
    for n, width in zip(words, fitted, strict=True):
        narrowed[n] = width
    return narrowed


def _lines(head: Sequence[str], cells: Sequence[Row], widths: Sequence[int]) -> Iterator[str]:
    for line in cells:
        padded = []
        for name, value, width in zip(head, line, widths, strict=True):
            text = shorten(str(value), width)
            blanks = " " * (width - cell_len(text))
            padded.append(blanks + text if name in _NUMBERS else text + blanks)
        yield GAP.join(padded).rstrip()


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else clean(str(value))
