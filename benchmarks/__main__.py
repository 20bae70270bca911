"""`python -m benchmarks [NAME…]`: run benchmarks; print tables, write JSON, SVG and Markdown."""

from __future__ import annotations

import argparse
import io
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from time import gmtime, monotonic, strftime
from typing import Any

from rich.console import Console

from benchmarks import pages, record, report
from benchmarks.figure import Figure, marked
from benchmarks.options import NAMES, is_real_time, parse
from benchmarks.record import Record, Records
from benchmarks.server import Setup, database_name, server, settings
from gapless.errors import GaplessError, UsageError

COLUMNS = 100


def benchmark(name: str) -> Callable[[Setup], list[Figure]]:
    """Return the benchmark of that name: `run` of the module of that name."""
    found: Callable[[Setup], list[Figure]] = import_module(f"benchmarks.{name}").run
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run the requested benchmarks; return the exit code: 1 when one failed."""
    options = parse(words)
    console = Console(width=COLUMNS)
    if options.rewrite_docs:
        _write_docs(record.read(pages.ROOT / pages.FIGURES), console)
        return 0
    with server(options.dsn) as dsn, Setup(dsn=dsn).database("migrated"):
        circumstances = _circumstances(dsn, options)
        console.print(f"[dim]{record.conditions(_now(circumstances))}[/]", highlight=False)
        for name, value in circumstances["settings"].items():
            console.print(f"[dim]{name} = {value}[/]", highlight=False)
        setup = Setup(
            dsn=dsn,
            size=circumstances["size"],
            commit_delay_ms=options.commit_delay_ms,
            minutes=options.minutes,
            is_own=options.dsn is None,
            migrated=database_name("migrated"),
        )
        records, failed = _run(setup, options.names or NAMES, circumstances, console)
    groups = {name: each.figures for name, each in records.items()}
    report.show(console, groups)
    record.write(options.json, records)
    pictures = options.json.parent / "benchmarks"
    report.write_pictures(pictures, groups, setup.charts)
    console.print(f"\nevery round: {options.json}; pictures: {pictures}")
    if options.write_docs:
        _write_docs(record.read(pages.ROOT / pages.FIGURES) | records, console)
    return 1 if failed else 0


def _run(
    setup: Setup, names: Sequence[str], circumstances: dict[str, Any], console: Console
) -> tuple[dict[str, Record], list[str]]:
    """Return the records of the benchmarks, and the names of the failed; Ctrl-C skips the rest."""
    records: dict[str, Record] = {}
    failed: list[str] = []

    def complain(name: str, what: str, error: BaseException) -> None:
        console.print(f"{name}: {what}: {error or type(error).__name__}", style="red", markup=False)

    for name in names:
        began_s, begun, drawn = monotonic(), _now(circumstances), len(setup.charts)
        try:
            with console.status(f"{name} …"):
                figures = marked(benchmark(name)(setup))
        except (UsageError, ImportError) as error:  # not available here: the others do not need it
            complain(name, "left out", error)
        except KeyboardInterrupt as error:
            complain(name, "stopped", error)
            failed.append(name)
            break
        except Exception as error:  # noqa: BLE001 - minutes of figures MUST not be lost for one
            complain(name, "failed", error)
            failed.append(name)
        else:
            charts = tuple(setup.charts[drawn:])
            records[name] = Record(circumstances=begun, figures=figures, charts=charts)
            console.print(f"{name}: done in {monotonic() - began_s:.0f} s")
    return records, failed


def _write_docs(records: Records, console: Console) -> None:
    """Keep the figures, in the order of NAMES, and rewrite the pages that show them."""
    ordered = {name: records[name] for name in NAMES if name in records}
    record.write(pages.ROOT / pages.FIGURES, ordered)
    for path in pages.rewrite(pages.ROOT, ordered):
        console.print(f"rewritten: {path.relative_to(pages.ROOT)}")
    for name in pages.homeless(pages.ROOT, ordered):
        console.print(f"no page has <!-- bench {name} -->: its table was not written")
    for what in pages.absent(ordered):
        console.print(f"a dash stands for a figure that is not there: {what}", markup=False)


def _now(circumstances: dict[str, Any]) -> dict[str, Any]:
    """Return the circumstances, with those that differ by benchmark: the time, and the load."""
    return {
        **circumstances,
        "date": strftime("%Y-%m-%d %H:%M UTC", gmtime()),
        "load_at_start": round(os.getloadavg()[0], 1),
    }


def _circumstances(dsn: str, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "machine": _processor(),
        "memory_gb": _memory_gb(),
        "commit": _commit(),
        "real_time": is_real_time(),
        "autogroup": _autogroup(),
        "python": platform.python_version(),
        "size": "tiny" if options.tiny else "quick" if options.quick else "full",
        "commit_delay_ms": options.commit_delay_ms,
        "settings": settings(dsn),
    }


def _processor() -> str:
    """Return the system's name for its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _autogroup() -> bool | None:
    """Tell whether nice counts only within a session (Linux); None where that does not exist."""
    try:
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"
    except OSError:
        return None


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def _commit() -> str:
    """Return the measured commit, with a + if files differ from it; "unknown" without git."""
    found = _git("rev-parse", "--short=10", "HEAD")
    return found + "+" * bool(_git("status", "--porcelain", "--untracked-files=no")) or "unknown"


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(pages.ROOT), *words],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    # Line by line into a file too, or forked processes would write copies of the buffered rest.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        raise SystemExit(main())
    except GaplessError as problem:
        sys.stderr.write(f"bin/bench: {problem}\n")
        raise SystemExit(problem.exit_code) from None
