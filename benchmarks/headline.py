"""The README's figures: those that a newcomer asks for, beside the fastest alternative (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from statistics import median
from typing import NamedTuple

from benchmarks.chart import Pair, pairs
from benchmarks.figure import NO_RIVALS, Figure
from benchmarks.record import Records
from benchmarks.report import NOTHING, number

# These store no log, or read one that others keep: they are bounds, and no program could use them.
BOUNDS = ("plain INSERT*", "COPY*", "psycopg*", "bare *")


class Row(NamedTuple):
    """A row: its text, and the benchmark's figures of which it is made (`what` may have a `*`)."""

    says: str
    benchmark: str
    what: str
    unit: str


ROWS = (
    Row(
        "publish, an event a commit, while 8 workers handle them",
        "publish",
        "batch 1: 8*",
        "events/s",
    ),
    Row("publish from Python, 1000 a commit", "bulk", "batch 1000: publish(), dicts", "events/s"),
    Row(
        "one worker reads, JSON decoded, 100 events a commit",
        "consume",
        "units of 1, batch 100: *, decoding",
        "events/s",
    ),
    Row("five groups read the same log", "groups", "*a full log: a worker a group", "events/s"),
    Row("4 workers, beside a queue in a table", "jobs", "*, payload as bytes", "events/s"),
    Row(
        "one worker, beside queues of others, JSON decoded",
        "peers",
        "drain*, payload decoded",
        "events/s",
    ),
    Row("from commit to handler, 100 events/s, median", "latency", "100/s, commit*: p50", "ms"),
    Row("idle, with 8 partitions", "idle", "8 partitions: CPU", "% of a core"),
)


def table(records: Records) -> str:
    """Return the rows as a table, with a dash for each missing figure."""
    lines = [
        "| | unit | gapless | fastest alternative | its value | command |",
        "|---|---|--:|---|--:|---|",
    ]
    for row, figure in _found(records):
        ours, against, theirs = NOTHING, NOTHING, NOTHING
        if figure is not None:
            ours, against, theirs = _median(figure.ours), figure.against, _median(figure.baseline)
        command = f"`bin/bench {row.benchmark}`"
        lines.append(f"| {row.says} | {row.unit} | {ours} | {against} | {theirs} | {command} |")
    return "\n".join(lines)


def picture(records: Records) -> str:
    """Return the rows that have figures, as SVG."""
    shown = [
        Pair(
            label=f"{row.says}: {row.unit}" + (", less is better" * (not figure.more_is_better)),
            ours=(median(figure.ours), f"{_median(figure.ours)}  gapless"),
            theirs=(median(figure.baseline), f"{_median(figure.baseline)}  {figure.against}"),
        )
        for row, figure in _found(records)
        if figure is not None
    ]
    return pairs("gapless and the fastest alternative, measured in the same run", shown)


def absent(records: Records) -> list[str]:
    """Return the texts of the rows without a figure."""
    return [row.says for row, figure in _found(records) if figure is None]


def _found(records: Records) -> Iterator[tuple[Row, Figure | None]]:
    for row in ROWS:
        figures = records[row.benchmark].figures if row.benchmark in records else ()
        measured = [
            each
            for each in figures
            if fnmatchcase(each.what, row.what)
            and each.unit == row.unit
            and each.ours
            and each.baseline
            and each.against not in NO_RIVALS
            and not any(fnmatchcase(each.against, bound) for bound in BOUNDS)
        ]
        is_rate = bool(measured) and measured[0].more_is_better
        choose = max if is_rate else min
        yield row, choose(measured, key=lambda each: median(each.baseline), default=None)


def _median(values: tuple[float, ...]) -> str:
    return number(median(values))
