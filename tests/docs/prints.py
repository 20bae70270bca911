"""The output that a page shows below a block, compared with the block's own.

Times, ages, rates, ids, ports and widths of columns differ from run to run, and count as alike. In the
page `…` stands for any text of a line, and on a line by itself for any lines.
"""

from __future__ import annotations

import re
from difflib import unified_diff
from typing import Any

from psycopg import Cursor

_VARIES = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::\d\d)?)?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"), "TIME"),
    (re.compile(r"(?<![\w.])\d+(?:\.\d+)? ?(?:ms|s|m)\b"), "AGE"),
    (re.compile(r"\d[\d,.]*(?= (?:events/s|functions|views)\b)"), "N"),
    (re.compile(r"(?<=localhost|127\.0\.0\.1):\d+\b"), ":PORT"),
    (re.compile(r"-[-+]{2,}"), "---"),
    (re.compile(r"[ \t]+"), " "),
)
_ANY = "…"


def differences(printed: str, shown: str) -> str:
    """Return what a block printed beside what its page shows; empty where they are alike."""
    lines, wanted = _alike(printed), _alike(shown)
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == _ANY else f"{_any_text(line)}\n" for line in wanted
    )
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)):
        return ""
    return "\n".join(unified_diff(wanted, lines, "the page", "the block", lineterm="", n=99))


def rows_shown(cursor: Cursor[Any]) -> str:
    """Return the rows of all results, as psql shows them."""
    found = ""
    while True:
        result = cursor.pgresult
        if result is not None and result.nfields:
            names = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
            rows = [
                [(result.get_value(row, n) or b"").decode() for n in range(result.nfields)]
                for row in range(result.ntuples)
            ]
            found += f" {' | '.join(names)}\n---\n"
            found += "".join(f" {' | '.join(row)}\n" for row in rows)
            found += f"({len(rows)} row{'' if len(rows) == 1 else 's'})\n"
        if not cursor.nextset():
            return found


def _alike(text: str) -> list[str]:
    for pattern, instead in _VARIES:
        text = pattern.sub(instead, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _any_text(line: str) -> str:
    return "[^\n]*".join(map(re.escape, line.split(_ANY)))
