"""Texts that fit a number of cells of a terminal (pure)."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from gapless.status.words import UNICODE, Glyphs, clean


def shorten(text: str, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Cut the middle out of a name wider than `width` cells: its two ends identify it."""
    if cell_len(text) <= width:
        return text
    room = width - cell_len(glyphs.ellipsis)
    if room < 2:
        return set_cell_size(text, width)
    tail = room // 2
    end = text[-tail:]
    while cell_len(end) > tail:
        end = end[1:]
    return set_cell_size(text, room - cell_len(end)) + glyphs.ellipsis + end


def cut(text: str, width: int, glyphs: Glyphs = UNICODE) -> str:
    """Cut the end off a sentence that is wider than `width` cells."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - cell_len(glyphs.ellipsis))) + glyphs.ellipsis


def wrapped(text: str, width: int, glyphs: Glyphs = UNICODE) -> list[str]:
    """Break lines that are wider than `width` cells, anywhere: they may contain no blanks.

    A tab becomes four blanks; only characters that could drive the terminal are removed.
    """
    width = max(1, width)
    lines: list[str] = []
    for line in text.split("\n"):
        lines += _pieces(clean(line.replace("\t", "    "), glyphs), width)
    return lines


def _pieces(line: str, width: int) -> list[str]:
    """Cut a line into pieces that fit; one pass, for a payload may be long."""
    if line.isascii():
        return [line[n : n + width] for n in range(0, len(line), width)] or [""]
    pieces, used = [""], 0
    for character in line:
        cells = cell_len(character)
        if used + cells > width:
            pieces.append("")
            used = 0
        pieces[-1] += character
        used += cells
    return pieces
