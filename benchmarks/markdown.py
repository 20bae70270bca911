"""Tables of figures for the documentation, each between the two markers of its benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from benchmarks.figure import Figure
from benchmarks.report import NOTHING, number, spread


def section(name: str, figures: Sequence[Figure], pictures: Sequence[str], conditions: str) -> str:
    """Return a benchmark's table between its markers. pictures: paths relative to the page."""
    lines = [
        f"<!-- bench {name} -->",
        f"*{conditions}*",
        "",
        "| what | unit | ours | rival | its value | ratio | target | verdict; bound |",
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
        _verdict(figure),
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _verdict(figure: Figure) -> str:
    verdict = f"**{figure.verdict}**" if figure.verdict == "missed" else figure.verdict
    return "; ".join(filter(None, (verdict, figure.bound)))


def _cell(values: Sequence[float]) -> str:
    if not values:
        return NOTHING
    between = spread(values)
    return number(median(values)) + (f" ({between})" if between else "")
