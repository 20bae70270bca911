"""Numbers, ages and names as a person reads them in a narrow column (pure)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gapless.status.snapshot import COUNT_MAX

# Those of ops/text.py, which this room does not know.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
# An age below this many seconds is written in this unit with this many digits.
_AGES = (
    (0.0005, 1, 0, "s"),
    (0.9995, 0.001, 0, "ms"),
    (9.95, 1, 1, "s"),
    (99.5, 1, 0, "s"),
    (99.5 * 60, 60, 0, "m"),
    (48 * 3600, 3600, 1, "h"),
    (99.5 * 86400, 86400, 1, "d"),
)
SEQUENCER = {"awake": "running", "asleep": "idle", "nobody": "nobody"}
_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """Signs that not every terminal can show; `sparks` from the lowest to the highest.

    is_ascii: names are put into ASCII, too.
    """

    arrow: str
    ellipsis: str
    dash: str
    sparks: str
    is_ascii: bool


UNICODE = Glyphs(arrow="→", ellipsis="…", dash="·", sparks="▁▂▃▄▅▆▇█", is_ascii=False)
PLAIN = Glyphs(arrow="->", ellipsis="..", dash="-", sparks="_.-:=+*#", is_ascii=False)
ASCII = replace(PLAIN, is_ascii=True)


def clean(text: str, glyphs: Glyphs = UNICODE) -> str:
    """Return text that cannot drive the terminal and stays on one line."""
    text = _UNSAFE.sub(lambda c: " " if c[0] in "\n\r\t" else "?", text)
    if glyphs.is_ascii:
        text = text.replace(UNICODE.arrow, ASCII.arrow).encode("ascii", "replace").decode()
    return text


def count(number: float) -> str:
    """Write a number in at most five characters: 9,999 then 10.0k, 123k, 1.23M."""
    if number < 9999.5:
        return f"{number:,.0f}"
    for size, unit in _STEPS:
        scaled = number / size
        if scaled >= 0.9995:
            digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{digits}f}{unit}"
    raise AssertionError(number)


def some(number: int, noun: str) -> str:
    """Write a number with its noun: `1 partition`, `8 partitions`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def counted(number: int) -> str:
    """Write a count that stops at COUNT_MAX."""
    return f"{count(number).replace('.0', '')}+" if number >= COUNT_MAX else count(number)


def rate(per_s: float | None, glyphs: Glyphs) -> str:
    """Write events per second; a dash while unknown."""
    if per_s is None:
        return glyphs.dash
    return f"{per_s:.1f}" if 0.05 <= per_s < 9.95 else count(per_s)


def age(seconds: float | None) -> str:
    """Write a duration in at most five characters: 350ms, 2.1s, 45s, 12m, 3.2h, 5.1d."""
    if seconds is None:
        return "?"
    for below, size, digits, unit in _AGES:
        if seconds < below:
            return f"{seconds / size:.{digits}f}{unit}"
    return f"{seconds / 86400:.0f}d"


def sparkline(points: Sequence[float | None], width: int, glyphs: Glyphs) -> str:
    """Draw the newest `width` points on their own scale; unknown ones are blank."""
    newest = points[-width:] if width > 0 else []
    top = max((point for point in newest if point), default=0.0)
    steps = len(glyphs.sparks) - 1
    drawn = ""
    for point in newest:
        if point is None:
            drawn += " "
        elif point <= 0 or top <= 0:
            drawn += glyphs.sparks[0]
        else:
            drawn += glyphs.sparks[max(1, round(point / top * steps))]
    return drawn.rjust(width)
