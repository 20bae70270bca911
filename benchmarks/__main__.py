"""`python -m benchmarks [NAME…]`: run benchmarks; print tables, write JSON, SVG and Markdown."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from rich.console import Console

from benchmarks import markdown, report
from benchmarks.figure import Figure
from benchmarks.server import Setup, server, settings
from gapless.errors import UsageError

NAMES = (
    "publish",
    "bulk",
    "consume",
    "groups",
    "queue",
    "latency",
    "idle",
    "held",
    "scale",
    "backlog",
    "hot",
    "large",
    "sequencing",
    "members",
    "planning",
    "spark",
    "peers",
)
COLUMNS = 100


def benchmark(name: str) -> Callable[[Setup], list[Figure]]:
    """Return the benchmark of that name: `run` of the module of that name."""
    found: Callable[[Setup], list[Figure]] = import_module(f"benchmarks.{name}").run
    return found


def main() -> None:
    options = _parse()
    console = Console(width=COLUMNS)
    if options.markdown and not options.markdown.is_file():
        raise UsageError(f"{options.markdown}: there is no such page")
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
        )
        groups = _run(setup, options.names or NAMES, console)
    report.show(console, groups)
    report.write_json(options.json, groups, circumstances)
    folder = options.markdown.parent if options.markdown else options.json.parent
    pictures = report.write_svg(folder / "benchmarks", groups, setup.charts)
    console.print(f"\nevery round: {options.json}; pictures: {folder / 'benchmarks'}")
    if options.markdown:
        _write_page(options.markdown, groups, pictures, _sentence(circumstances), console)


def _run(setup: Setup, names: Sequence[str], console: Console) -> dict[str, list[Figure]]:
    groups: dict[str, list[Figure]] = {}
    for name in names:
        began_s = monotonic()
        try:
            with console.status(f"{name} …"):
                groups[name] = benchmark(name)(setup)
        except (
            UsageError,
            ImportError,
        ) as error:  # something is missing here: the others can do without
            console.print(f"[red]{name}: left out: {error}[/]", highlight=False)
            continue
        console.print(f"{name}: done in {monotonic() - began_s:.0f} s")
    return groups


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
        f"({circumstances['machine']}), load {circumstances['load_at_start']:g} before the run, "
        f"fsync {given['fsync']}, shared_buffers {given['shared_buffers']}{delay}"
    )


def _processor() -> str:
    """Return what the system calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bin/bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; all if none is named"
    )
    parser.add_argument("--quick", action="store_true", help="all of it in less than 5 minutes")
    parser.add_argument("--tiny", action="store_true", help="only see whether it runs")
    parser.add_argument("--dsn", help="a superuser on a server to use instead of our own")
    parser.add_argument(
        "--commit-delay-ms", type=float, default=0, help="imitate a slower disk or a replica"
    )
    parser.add_argument(
        "--minutes", type=float, help="how long `held` keeps its snapshot (quick: 0.2, full: 10)"
    )
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="where all rounds are written"
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="write the tables between the markers of this page, the pictures beside it",
    )
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: there are {', '.join(NAMES)}")
    return options


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        raise SystemExit(f"bin/bench: {error}") from None
