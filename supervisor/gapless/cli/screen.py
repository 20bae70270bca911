"""Put things on the screen: tables, JSON, notes; what is in an event never drives a terminal."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, field, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# What could move the cursor, change colours or turn the direction of text: C0, C1, DEL, marks and
# overrides of direction, line and paragraph separators, lone surrogates (which no encoding takes).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def plain(text: str) -> str:
    """Return text harmless on a terminal and on one line; escapes show what was there."""
    return _UNSAFE.sub(_escaped, text)


def to_json(value: object, *, indent: int | None = None) -> str:
    """Write a value as JSON that is harmless on a terminal, too."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=_as_json)
    return safe_json(text)


def safe_json(text: str) -> str:
    """Escape what is unsafe inside the strings of a JSON text; between them only blanks change."""
    # Raw line breaks and tabs can stand only between the tokens of a JSON text.
    return _UNSAFE.sub(lambda c: c[0] if c[0] in "\n\r\t" else f"\\u{ord(c[0]):04x}", text)


def stamp(moment: datetime) -> str:
    """Write a time in UTC, to the millisecond: the same on every machine."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def count(number: int, noun: str) -> str:
    """Write a number with its noun: `1 event`, `1,000 events`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def say(text: str = "") -> None:
    """Print a line of data."""
    sys.stdout.write(f"{text}\n")


def tell(args: argparse.Namespace, text: str, **what: object) -> None:
    """Say what was done in words, or with --json as an object."""
    say(to_json(what) if args.json else text)


def only_json() -> Any:
    """Declare a field for scripts: a number where people are told it in units."""
    return field(metadata={"only_json": True})


def note(text: str) -> None:
    """Print a line of chatter, to stderr."""
    sys.stdout.flush()
    sys.stderr.write(f"gapless: {plain(text)}\n")


def show(
    kind: type[DataclassInstance],
    records: Sequence[DataclassInstance],
    *,
    as_json: bool,
    empty: str = "",
) -> None:
    """Print records as a table, a column for each field, or as a JSON list of objects.

    `empty` is said on stderr, in place of a table without rows. A field made by `only_json` is in
    no table.
    """
    if as_json:
        say(to_json([asdict(record) for record in records], indent=2))
    elif records or not empty:
        names = [each.name for each in fields(kind) if not each.metadata.get("only_json")]
        print_table(
            [name.upper().replace("_", "-") for name in names],
            [[getattr(record, name) for name in names] for record in records],
        )
    else:
        note(empty)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table: in colour on a terminal, else in plain columns with two blanks between."""
    if sys.stdout.isatty():
        _print_rich(header, rows)
        return
    cells = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(header))]
    right = [_is_number(n, rows) for n in range(len(header))]
    for line in cells:
        aligned = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        say("  ".join(aligned).rstrip())


def cell(value: object) -> str:
    """Write one value for people; nothing is a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(str(value))


def _print_rich(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    # Only on a terminal: importing rich costs more than everything else here.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold cyan")
    for n, name in enumerate(header):
        table.add_column(name, justify="right" if _is_number(n, rows) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))  # Text: brackets are no markup
    Console().print(table)


def _is_number(n: int, rows: Iterable[Sequence[object]]) -> bool:
    present = [row[n] for row in rows if row[n] is not None]
    return bool(present) and all(type(value) is int for value in present)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return short.get(match[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _as_json(value: object) -> object:
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
