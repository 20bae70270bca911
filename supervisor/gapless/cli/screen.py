"""Print tables, JSON and notes; the content of an event never controls the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from gapless.ops.text import cell, json_text, plain

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def say(text: str = "") -> None:
    """Print a line of data."""
    sys.stdout.write(f"{text}\n")


def _tell(
    args: argparse.Namespace, words: str, document: object, indent: int | None = None
) -> None:
    """Print words or, with --json, a document; a program that calls a command gets both."""
    if hasattr(args, "tell"):
        args.tell(words, document)
    else:
        say(json_text(document, indent=indent) if args.json else words)


def answer(
    args: argparse.Namespace,
    text: str,
    record: DataclassInstance | Mapping[str, object] | None = None,
    **what: object,
) -> int:
    """Print a result in words, or with --json as an object: the fields of a record, and `what`.

    Return 0, since nothing failed.
    """
    if record is not None:
        what = {**(record if isinstance(record, Mapping) else asdict(record)), **what}
    _tell(args, text, what)
    return 0


def told(args: argparse.Namespace, done: DataclassInstance, **what: object) -> int:
    """Print a result in the words of its record, as answer() does; return 0."""
    return answer(args, str(done), done, **what)


def changed(args: argparse.Namespace, is_changed: object, done: str, nothing: str = "") -> int:
    """Print that something was changed, or that there was nothing to do, as answer(); return 0.

    nothing: replaces `done` behind "nothing to do: "; {name} in both is the argument of that name.
    With --json: all arguments, and whether there was a change.
    """
    text = done if is_changed else f"nothing to do: {nothing or done}"
    return answer(args, text.format(**args.given), args.given, changed=bool(is_changed))


def documented(args: argparse.Namespace, document: object) -> int:
    """Print a document as JSON; return 0."""
    _tell(args, "", document, indent=2)
    return 0


def answer_all(args: argparse.Namespace, records: Sequence[DataclassInstance], empty: str) -> int:
    """Print a line for each record, `empty` for none; or a JSON list. Return 0."""
    if args.json:
        say(json_text([asdict(record) for record in records]))
        return 0
    for line in [str(record) for record in records] or [empty]:
        say(line)
    return 0


def listed(
    args: argparse.Namespace,
    records: Sequence[DataclassInstance],
    empty: str = "",
    *,
    first: Sequence[str] = (),
) -> int:
    """Print records as a table, a column for each field, or as a JSON list of objects; return 0.

    `empty` is printed on stderr, in place of a table without rows. A field with `only_json` in its
    metadata is in no table. first: properties that are the table's first columns.
    """
    if args.json:
        _tell(args, "", [asdict(record) for record in records], indent=2)
    elif records:
        shown = [each for each in fields(records[0]) if not each.metadata.get("only_json")]
        names = [*first, *(each.name for each in shown)]
        print_table(
            [name.upper().replace("_", "-") for name in names],
            [[getattr(record, name) for name in names] for record in records],
        )
    elif empty:
        remark(empty)
    return 0


def remark(text: str) -> None:
    """Print a note to stderr."""
    sys.stdout.flush()
    sys.stderr.write(f"gapless: {plain(text)}\n")


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table in columns with two blanks between, its header in colour on a terminal.

    A row is one line, which a narrow terminal wraps: a value stays whole, and can be copied.
    """
    cells = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(_width(line[n]) for line in cells) for n in range(len(header))]
    right = [_is_number(n, rows) for n in range(len(header))]
    show = _say_header if sys.stdout.isatty() else say
    for line in cells:
        padded = (
            " " * (width - _width(text)) + text if is_right else text + " " * (width - _width(text))
            for text, width, is_right in zip(line, widths, right, strict=True)
        )
        show("  ".join(padded).rstrip())
        show = say


def _say_header(line: str) -> None:
    # Only on a terminal: importing rich costs more than everything else here.
    from rich.console import Console  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    Console().print(Text(line, style="bold cyan"), soft_wrap=True)


def _width(text: str) -> int:
    """Return how many columns a text takes: Chinese characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - as above

    return cell_len(text)


def _is_number(n: int, rows: Iterable[Sequence[object]]) -> bool:
    present = [row[n] for row in rows if row[n] is not None]
    return bool(present) and all(type(value) is int for value in present)
