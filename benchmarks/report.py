"""Figures as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figure import Figure

_VERDICT = {"met": "[green]met[/]", "missed": "[red]missed[/]", "": ""}


def table(figures: Sequence[Figure]) -> Table:
    """Return medians with their spread, ratios round by round, and targets."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("what", max_width=46)
    shown.add_column("unit")
    shown.add_column("ours", justify="right")
    shown.add_column("baseline", justify="right")
    shown.add_column("against", max_width=28)
    shown.add_column("ratio", justify="right")
    shown.add_column("target", justify="right")
    shown.add_column("")
    for figure in figures:
        shown.add_row(
            figure.what,
            figure.unit,
            _with_spread(figure.ours),
            _with_spread(figure.baseline),
            figure.against,
            _with_spread(figure.ratios),
            "" if figure.target is None else str(figure.target),
            _VERDICT[figure.verdict],
        )
    return shown


def document(figures: Sequence[Figure], circumstances: dict[str, Any]) -> dict[str, Any]:
    """Return everything that was measured, every round of it."""
    return {
        **circumstances,
        "figures": [
            {
                **asdict(figure),
                "median": median(figure.ours),
                "ratios": figure.ratios,
                "ratio": median(figure.ratios) if figure.ratios else None,
                "verdict": figure.verdict,
            }
            for figure in figures
        ],
    }


def show(
    figures: Sequence[Figure], circumstances: dict[str, Any], path: Path, console: Console
) -> None:
    """Print the table and write the JSON to `path`."""
    console.print(table(figures))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(figures, circumstances), indent=2) + "\n")
    console.print(f"every round: {path}")


def _with_spread(values: Sequence[float]) -> str:
    """Return the median, and below it the lowest and the highest."""
    if not values:
        return ""
    if len(values) == 1 or min(values) == max(values):
        return _number(median(values))
    return f"{_number(median(values))}\n[dim]{_number(min(values))} … {_number(max(values))}[/]"


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"
