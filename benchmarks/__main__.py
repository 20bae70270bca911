"""`python -m benchmarks [NAME…]`: run benchmarks; print tables, write JSON, SVG and Markdown."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from benchmarks import markdown, report
from benchmarks.figure import Figure
from benchmarks.options import NAMES, parse
from benchmarks.server import Setup, server, settings
from gapless.errors import GaplessError, UsageError

COLUMNS = 100


def benchmark(name: str) -> Callable[[Setup], list[Figure]]:
    """Return the benchmark of that name: `run` of the module of that name."""
    found: Callable[[Setup], list[Figure]] = import_module(f"benchmarks.{name}").run
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run what was asked for; return the exit code: 1 when a benchmark failed."""
    options = parse(words)
    console = Console(width=COLUMNS)
    with server(options.dsn) as dsn:
        circumstances = _circumstances(dsn, options)
        for name, value in {**circumstances, **circumstances["settings"]}.items():
            if name != "settings":
                console.print(f"[dim]{name} = {value}[/]", highlight=False)
        setup = Setup(
            dsn=dsn,
            size=circumstances["size"],
            commit_delay_ms=options.commit_delay_ms,
            minutes=options.minutes,
            is_own=options.dsn is None,
        )
        groups, failed = _run(setup, options.names or NAMES, console)
    report.show(console, groups)
    report.write_json(options.json, groups, circumstances)
    folder = options.markdown.parent if options.markdown else options.json.parent
    pictures = report.write_svg(folder / "benchmarks", groups, setup.charts)
    console.print(f"\nevery round: {options.json}; pictures: {folder / 'benchmarks'}")
    if options.markdown:
        _write_page(options.markdown, groups, pictures, _sentence(circumstances), console)
    return 1 if failed else 0


def _run(
    setup: Setup, names: Sequence[str], console: Console
) -> tuple[dict[str, list[Figure]], list[str]]:
    """Return the figures of each benchmark, and which failed; Ctrl-C leaves out the rest."""
    groups: dict[str, list[Figure]] = {}
    failed: list[str] = []

    def complain(name: str, what: str, error: BaseException) -> None:
        console.print(f"{name}: {what}: {error or type(error).__name__}", style="red", markup=False)

    for name in names:
        began_s = monotonic()
        try:
            with console.status(f"{name} …"):
                groups[name] = benchmark(name)(setup)
        except (UsageError, ImportError) as error:  # not to be had here: the others can do without
            complain(name, "left out", error)
        except KeyboardInterrupt as error:
            complain(name, "stopped", error)
            failed.append(name)
            break
        except Exception as error:  # noqa: BLE001 - minutes of figures MUST not be lost for one
            complain(name, "failed", error)
            failed.append(name)
        else:
            console.print(f"{name}: done in {monotonic() - began_s:.0f} s")
    return groups, failed


def _write_page(
    page: Path,
    groups: dict[str, list[Figure]],
    pictures: list[str],
    conditions: str,
    console: Console,
) -> None:
    homeless = markdown.write(page, groups, [f"benchmarks/{each}" for each in pictures], conditions)
    for name in homeless:
        console.print(f"{page} has no <!-- bench {name} -->: its table was not written")


def _circumstances(dsn: str, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "machine": _processor(),
        "load_at_start": round(os.getloadavg()[0], 1),
        "real_time": _is_real_time(),
        "python": platform.python_version(),
        "size": "tiny" if options.tiny else "quick" if options.quick else "full",
        "commit_delay_ms": options.commit_delay_ms,
        "settings": settings(dsn),
    }


def _sentence(circumstances: dict[str, Any]) -> str:
    """Say in one line where figures come from."""
    given = circumstances["settings"]
    delay = f", commits + {circumstances['commit_delay_ms']:g} ms" * bool(
        circumstances["commit_delay_ms"]
    )
    return (
        f"{circumstances['size']} run, PostgreSQL {given['server_version'].split()[0]}, "
        f"Python {circumstances['python']}, {circumstances['cores']} cores "
        f"({circumstances['machine']}), load {circumstances['load_at_start']:g} before the run"
        f"{', real-time priority' * circumstances['real_time']}, "
        f"fsync {given['fsync']}, shared_buffers {given['shared_buffers']}{delay}"
    )


def _is_real_time() -> bool:
    """Tell whether others' load counts for nothing, the server's share included: `chrt -r 5`."""
    if not hasattr(os, "sched_getscheduler"):
        return False
    return os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)


def _processor() -> str:
    """Return what the system calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except GaplessError as problem:
        sys.stderr.write(f"bin/bench: {problem}\n")
        raise SystemExit(problem.exit_code) from None
