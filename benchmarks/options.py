"""The command line of the benchmarks: wrong input is refused in one line, at once."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from gapless.errors import UsageError

NAMES = (
    "publish",
    "bulk",
    "consume",
    "groups",
    "jobs",
    "queue",
    "latency",
    "idle",
    "held",
    "scale",
    "backlog",
    "hot",
    "filters",
    "subscriptions",
    "conditions",
    "compaction",
    "large",
    "sequencing",
    "later",
    "capture",
    "attach",
    "gateway",
    "webhooks",
    "members",
    "planning",
    "spark",
    "peers",
)
COMMIT_DELAY_MS_MAX = 100  # PostgreSQL's own limit


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options. Raises UsageError for wrong input."""
    parser = _Parser(
        prog="bin/bench",
        description="Measure gapless and its rivals in turns: tables, JSON, SVG.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none is named"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="shorter rounds and fewer of them")
    size.add_argument("--tiny", action="store_true", help="only see whether it runs")
    parser.add_argument("--dsn", help="a superuser on a server to use instead of our own")
    parser.add_argument(
        "--commit-delay-ms",
        type=_between(0, COMMIT_DELAY_MS_MAX),
        default=0.0,
        help=f"imitate a slower disk or a replica, up to {COMMIT_DELAY_MS_MAX} ms",
    )
    parser.add_argument(
        "--minutes",
        type=_between(0.05, 1440),
        help="how long `held` keeps its snapshot (quick: 0.15, full: 0.5)",
    )
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="where all rounds are written"
    )
    docs = parser.add_mutually_exclusive_group()
    docs.add_argument(
        "--write-docs",
        action="store_true",
        help="keep the figures in docs/why/benchmarks/figures.json, and rewrite every page from it",
    )
    docs.add_argument(
        "--rewrite-docs",
        action="store_true",
        help="measure nothing; rewrite every page from docs/why/benchmarks/figures.json",
    )
    options = parser.parse_args(words)
    _check(options)
    return options


def _check(options: argparse.Namespace) -> None:
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        raise UsageError(f"there is no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if options.write_docs and is_real_time():
        raise UsageError("--write-docs: published figures are measured at normal priority")
    folder = options.json.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--json {options.json}: {error.strerror}") from None
    if options.json.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"--json {options.json}: cannot be written")


def is_real_time() -> bool:
    """Tell whether other load cannot disturb this run, nor the server: `chrt -r 5`."""
    if not hasattr(os, "sched_getscheduler"):
        return False
    return os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)


def _between(low: float, high: float) -> Callable[[str], float]:
    """Return an argument type: a number from `low` to `high`."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} must be from {low:g} to {high:g}")
        return value

    return number
