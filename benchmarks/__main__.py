"""`python -m benchmarks [NAME…]`: run benchmarks, print the table, write the JSON."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from benchmarks import consume, idle, latency, members, planning, publish, report, sequencing
from benchmarks.figure import Figure
from benchmarks.server import Setup, server, settings


def _spark(setup: Setup) -> list[Figure]:
    """Load Spark only when it is measured: it is an extra, and slow to import."""
    from benchmarks import spark  # noqa: PLC0415

    return spark.run(setup)


BENCHMARKS: dict[str, Callable[[Setup], list[Figure]]] = {
    "publish": publish.run,
    "latency": latency.run,
    "consume": consume.run,
    "idle": idle.run,
    "sequencing": sequencing.run,
    "members": members.run,
    "planning": planning.run,
    "spark": _spark,
}


def main() -> None:
    options = _parse()
    console = Console()
    with server(options.dsn) as dsn:
        circumstances = {
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "quick": options.quick,
            "commit_delay_ms": options.commit_delay_ms,
            "settings": settings(dsn),
        }
        for name, value in {**circumstances, **settings(dsn)}.items():
            if name != "settings":
                console.print(f"[dim]{name} = {value}[/]", highlight=False)
        setup = Setup(dsn=dsn, quick=options.quick, commit_delay_ms=options.commit_delay_ms)
        figures: list[Figure] = []
        for name in options.names or BENCHMARKS:
            with console.status(f"{name} …"):
                figures += BENCHMARKS[name](setup)
            console.print(f"{name}: done")
    report.show(figures, circumstances, options.json, console)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{', '.join(BENCHMARKS)}; all if none is named"
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--dsn", help="a superuser on a server to use instead of our own")
    parser.add_argument(
        "--commit-delay-ms", type=float, default=0, help="imitate a slower disk or a replica"
    )
    parser.add_argument(
        "--json", type=Path, default=Path("build/bench.json"), help="where all rounds are written"
    )
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: there are {', '.join(BENCHMARKS)}")
    return options


if __name__ == "__main__":
    main()
