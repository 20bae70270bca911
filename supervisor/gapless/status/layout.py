"""The layout: columns in a width, by rank; sections in a height, in order (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from gapless.status.fitted import cut, shorten
from gapless.status.view import Canvas
from gapless.status.words import Glyphs

AIRY_FROM = 28  # a screen of this many lines has blank ones between sections

Cell = tuple[str, str]
"""Text and style."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenColumn:
    """A column: the cells of all rows, their alignment, and its rank when room is short.

    need: the cells it would like. least: with fewer cells the column is left out, those of the
    lowest rank last; rank 0 stays. It is cut in the middle where both ends of a name matter.
    """

    title: str
    cells: Sequence[Cell]
    need: int
    least: int
    rank: int = 0
    is_right: bool = False
    keeps: Literal["beginning", "ends", "end"] = "beginning"


def table(columns: Sequence[ScreenColumn], canvas: Canvas, chosen: int | None = None) -> list[Text]:
    """Lay columns out: a heading, then a line per row; leave out or cut the rest."""
    widths = _widths(columns, canvas.width)
    lines = [_line([(each.title, "bold") for each in columns], columns, widths, canvas.glyphs)]
    for n in range(len(columns[0].cells)):
        line = _line([each.cells[n] for each in columns], columns, widths, canvas.glyphs)
        if n == chosen:
            line.pad_right(max(0, canvas.width - line.cell_len))
            line.stylize("reverse")
        lines.append(line)
    return lines


def _widths(columns: Sequence[ScreenColumn], room: int) -> list[int]:
    """Share the room: each its least, by rank while it lasts; the rest goes to needs, in order."""
    widths = [0] * len(columns)
    left = room + 1
    for n in sorted(range(len(columns)), key=lambda n: columns[n].rank):
        least = min(columns[n].least, columns[n].need)
        if least + 1 <= left or columns[n].rank == 0:
            widths[n] = max(1, min(least, left - 1))
            left -= widths[n] + 1
    for n, each in enumerate(columns):
        if widths[n]:
            more = min(each.need - widths[n], max(0, left))
            widths[n] += more
            left -= more
    return widths


def _line(
    cells: Sequence[Cell], columns: Sequence[ScreenColumn], widths: Sequence[int], glyphs: Glyphs
) -> Text:
    line = Text(no_wrap=True)
    for (text, style), column, width in zip(cells, columns, widths, strict=True):
        if not width:
            continue
        fitted = text if cell_len(text) <= width else _fitted(text, width, column, glyphs)
        blanks = " " * (width - cell_len(fitted))
        line.append(" " if line else "")
        line.append(blanks + fitted if column.is_right else fitted + blanks, style=style or None)
    return line


def _fitted(text: str, width: int, column: ScreenColumn, glyphs: Glyphs) -> str:
    if column.keeps == "end":
        return text[-width:]
    return shorten(text, width, glyphs) if column.keeps == "ends" else cut(text, width, glyphs)


# -- height ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page. least: with fewer lines it is left out; draw: returns at most n lines."""

    wanted: int
    least: int
    draw: Callable[[int], list[Text]]


def lay_out(sections: Sequence[Section], room: int | None) -> list[Text]:
    """Return the lines of sections, one below the other, at most `room` (None: all of them)."""
    sections = [each for each in sections if each.wanted]
    gap = 1 if room is None or room >= AIRY_FROM else 0
    if room is None:
        shares = [each.wanted for each in sections]
    else:
        shares = share(room - gap * max(0, len(sections) - 1), sections)
    lines: list[Text] = []
    for each, height in zip(sections, shares, strict=True):
        if height:
            lines += [Text()] * (gap if lines else 0)
            lines += each.draw(height)
    return lines


def share(room: int, sections: Sequence[Section]) -> list[int]:
    """Share lines: to each its least while there is room, in order; then up to its wish."""
    left = max(0, room)
    shares = []
    for each in sections:
        least = min(each.least, each.wanted)
        shares.append(least if least <= left else 0)
        left -= shares[-1]
    for n, each in enumerate(sections):
        if shares[n]:
            more = min(each.wanted - shares[n], left)
            shares[n] += more
            left -= more
    if not any(shares) and sections and room > 0:
        shares[0] = room  # a part of it is better than nothing
    return shares


def window(count: int, chosen: int, room: int) -> range:
    """Return the visible rows of `count` in `room` lines, the chosen one in the middle.

    If some are hidden, one line is left free to say so.
    """
    if count <= room:
        return range(count)
    size = max(1, room - 1)
    first = min(max(0, chosen - size // 2), count - size)
    return range(first, first + size)
