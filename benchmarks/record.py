"""Measurements as a document: each benchmark's figures, with their circumstances."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.chart import Chart, Panel
from benchmarks.figure import Figure, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One benchmark's run. circumstances: machine, load at its start, date, commit, settings, …"""

    circumstances: Mapping[str, Any]
    figures: tuple[Figure, ...]
    charts: tuple[Chart, ...] = field(default=())


Records = Mapping[str, Record]


def read(path: Path) -> dict[str, Record]:
    """Return the records of a file by the names of their benchmarks; none if there is no file."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    return {name: _record(each) for name, each in document["benchmarks"].items()}


def write(path: Path, records: Records) -> None:
    """Write every round of every benchmark to a file."""
    document = {"benchmarks": {name: _document(each) for name, each in records.items()}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def conditions(circumstances: Mapping[str, Any]) -> str:
    """Describe in one line the circumstances of the figures."""
    of, given = circumstances, circumstances["settings"]
    words = [
        f"{of['size']} run of {of['date']}",
        f"commit {of['commit']}",
        f"PostgreSQL {given['server_version'].split()[0]}",
        f"Python {of['python']}",
        f"{of['machine']}, {of['cores']} cores, {of['memory_gb']} GB",
        f"load {of['load_at_start']:g} at start",
        "real-time priority" if of["real_time"] else "normal priority",
        f"fsync {given['fsync']}",
        f"shared_buffers {given['shared_buffers']}",
    ]
    if of.get("autogroup") is not None:  # older figures lack it
        words.append(f"autogroup {'on' if of['autogroup'] else 'off'}")
    if of["commit_delay_ms"]:
        words.append(f"commits + {of['commit_delay_ms']:g} ms")
    return ", ".join(words)


def _document(record: Record) -> dict[str, Any]:
    return {
        "circumstances": dict(record.circumstances),
        "figures": [
            {
                **asdict(figure),
                "median": median(figure.ours) if figure.ours else None,
                "ratio": median(figure.ratios) if figure.ratios else None,
                "verdict": figure.verdict,
            }
            for figure in record.figures
        ],
        "charts": [asdict(chart) for chart in record.charts],
    }


def _record(document: Mapping[str, Any]) -> Record:
    return Record(
        circumstances=document["circumstances"],
        figures=tuple(_figure(each) for each in document["figures"]),
        charts=tuple(_chart(each) for each in document["charts"]),
    )


def _figure(document: Mapping[str, Any]) -> Figure:
    target = document["target"]
    return Figure(
        what=document["what"],
        unit=document["unit"],
        ours=tuple(document["ours"]),
        baseline=tuple(document["baseline"]),
        against=document["against"],
        target=None if target is None else Target(**target),
        bound=document.get("bound", ""),
    )


def _chart(document: Mapping[str, Any]) -> Chart:
    panels = [Panel(title=each["title"], series=each["series"]) for each in document["panels"]]
    return Chart(name=document["name"], x_label=document["x_label"], panels=panels)
