"""Figures as tables and as SVG for people; record.py writes them for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.chart import Chart, bars
from benchmarks.figure import ITSELF, Figure

_VERDICT = {"met": "[green]met[/]", "missed": "[red]missed[/]", "": ""}
NOTHING = "–"  # noqa: RUF001
MANY = 8  # values; of so many, the quartiles say more than the lowest and the highest

Groups = Mapping[str, Sequence[Figure]]


def table(name: str, figures: Sequence[Figure]) -> Table:
    """Return medians, and their spread below; ratios are those of the rounds. 100 columns wide."""
    shown = Table(box=None, pad_edge=False, header_style="bold", width=100)
    shown.add_column(name, ratio=1)
    for column, width in (("ours", 13), ("rival", 13), ("ratio", 14), ("target", 8)):
        shown.add_column(column, justify="right", width=width)
    for figure in figures:
        against = f", vs {figure.against}" if figure.against else ""
        bound = f"; {figure.bound}" if figure.bound else ""
        target = "" if figure.target is None else escape(str(figure.target))
        shown.add_row(
            f"{escape(figure.what)}\n[dim]{escape(figure.unit + against + bound)}[/]",
            _two_lines(figure.ours),
            _two_lines(figure.baseline),
            _two_lines(figure.ratios, digits=2) if figure.against else "",
            f"{target}\n{_VERDICT[figure.verdict]}",
        )
    return shown


def pictures(groups: Groups, charts: Sequence[Chart]) -> dict[str, str]:
    """Return the curves, and the ratios of each benchmark as bars: SVG by the file's name."""
    drawn = {chart.name: chart.svg() for chart in charts}
    for name, figures in groups.items():
        rates = [
            each
            for each in figures
            if each.ratios and each.unit.endswith("/s") and each.against != ITSELF
        ]
        ratios = {f"{each.what} / {each.against}": median(each.ratios) for each in rates}
        if shown := {label: value for label, value in ratios.items() if value > 0}:
            drawn[name] = bars(f"{name}: rate, ours / rival", shown)
    return {f"{name}.svg": svg for name, svg in drawn.items()}


def write_pictures(folder: Path, groups: Groups, charts: Sequence[Chart]) -> list[str]:
    """Write the pictures into a folder; return the files' names."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = pictures(groups, charts)
    for name, svg in drawn.items():
        (folder / name).write_text(svg)
    return [*drawn]


def show(console: Console, groups: Groups) -> None:
    """Print one table a benchmark."""
    for name, figures in groups.items():
        console.print()
        console.print(table(name, figures))


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return the lowest and the highest value, of many the quartiles; empty if both are equal."""
    first, *_, last = quantiles(values, n=4) if len(values) >= MANY else sorted([*values, *values])
    low, high = number(first, digits), number(last, digits)
    return "" if low == high else f"{low} … {high}"


def number(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits, but never fewer than before the point."""
    for size, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= size:
            return f"{value / unit:.3g}{letter}"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    if abs(value) >= 10**digits - 0.5:  # 999.7 is 1000, not 1e+03
        return f"{value:.0f}"
    return f"{value:.{2 if abs(value) < 0.1 else digits}g}"


def _two_lines(values: Sequence[float], digits: int = 3) -> str:
    if not values:
        return NOTHING
    return f"{number(median(values), digits)}\n[dim]{spread(values, digits)}[/]"
