"""The coverage of a run of the tests, by room: python bin/_coverage.py REPORT.json --print|--write.

REPORT.json is the output of `coverage json`. With --write the table goes into
docs/why/reliability.md as well, between its markers, with the day and the versions of the run.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "why" / "reliability.md"
_MARKED = re.compile(r"(?<=<!-- coverage -->\n).*?(?=<!-- /coverage -->)", re.DOTALL)


def main(report: Path, *, write: bool) -> None:
    """Print the table, and write it into the page."""
    table = rows(json.loads(report.read_text(encoding="utf-8")))
    print("\n".join(table))
    if write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(_MARKED.sub("\n".join([*table, ""]), text), encoding="utf-8")
        print(f"written into {PAGE.relative_to(ROOT)}", file=sys.stderr)


def rows(report: dict[str, Any]) -> list[str]:
    """Return the lines of the table: a room, its lines, the share of them that ran."""
    lines: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for file, found in report["files"].items():
        for room in (_room(file), "**all**"):
            lines[room] += found["summary"]["num_statements"]
            ran[room] += found["summary"]["covered_lines"]
    day = report["meta"]["timestamp"][:10]
    table = [
        f"Taken {day} with Python {platform.python_version()} by `bin/test --cov`:",
        "",
        "| room | statements | of which ran |",
        "|---|--:|--:|",
    ]
    for room in sorted(lines, key=lambda room: (room.startswith("*"), room)):
        if lines[room]:
            share = 100 * ran[room] / lines[room]
            table.append(f"| {room} | {lines[room]:,} | {share:.1f} % |".replace(",", " "))
    return table


def _room(file: str) -> str:
    """Return the package below gapless that contains a file."""
    parts = Path(file).parts
    below = parts[parts.index("gapless") + 1 :] if "gapless" in parts else ("pyspark_gapless", "")
    return f"`{below[0]}`" if len(below) > 1 else "`gapless` itself"


if __name__ == "__main__":
    main(Path(sys.argv[1]), write="--write" in sys.argv[2:])
