"""Writes tables of figures into a page of documentation, between two markers a benchmark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.figure import Figure
from benchmarks.report import NOTHING, Groups, number, spread


def write(path: Path, groups: Groups, pictures: Sequence[str], conditions: str) -> list[str]:
    """Replace what stands between `<!-- bench NAME -->` and `<!-- /bench NAME -->`.

    pictures: paths relative to the page, whose stem begins with the benchmark's name.
    Returns the benchmarks for which the page has no markers: nothing was written for them.
    """
    text = path.read_text(encoding="utf-8")
    homeless = []
    for name, figures in groups.items():
        own = [each for each in pictures if Path(each).stem.partition("-")[0] == name]
        section = _section(name, figures, own, conditions)
        text, found = re.subn(
            rf"<!-- bench {name} -->.*?<!-- /bench {name} -->",
            section.replace("\\", r"\\"),
            text,
            flags=re.DOTALL,
        )
        if not found:
            homeless.append(name)
    path.write_text(text, encoding="utf-8")
    return homeless


def _section(name: str, figures: Sequence[Figure], pictures: Sequence[str], conditions: str) -> str:
    lines = [
        f"<!-- bench {name} -->",
        f"*{conditions}*",
        "",
        "| what | unit | ours | rival | its value | ratio | target | |",
        "|---|---|--:|---|--:|--:|--:|---|",
        *map(_row, figures),
        "",
        *(f"![{name}]({each})" for each in pictures),
        f"<!-- /bench {name} -->",
    ]
    return "\n".join(lines)


def _row(figure: Figure) -> str:
    cells = (
        figure.what,
        figure.unit,
        _cell(figure.ours),
        figure.against,
        _cell(figure.baseline) if figure.against else "",
        _cell(figure.ratios) if figure.against else "",
        "" if figure.target is None else str(figure.target),
        f"**{figure.verdict}**" if figure.verdict == "missed" else figure.verdict,
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _cell(values: Sequence[float]) -> str:
    if not values:
        return NOTHING
    between = spread(values)
    return number(median(values)) + (f" ({between})" if between else "")
