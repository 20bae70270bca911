"""The demo's report at the end: the comparison with the file, the figures, the dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from rich.console import Console
from rich.table import Table

from gapless.db.queries import query
from gapless.demo.flights import flights

_DIFFERENCES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """Throughput of all groups together, latency from INSERT to handled in ms, leftover events."""

    handled: int
    seconds: float
    latency_ms: list[tuple[str, float, float]]
    lag: int
    dead: list[tuple[Any, ...]]


def measure(conn: Connection[Any]) -> Figures:
    """Ask the database for the figures, after all handling has ended."""
    queries = flights("queries")
    handled, seconds = conn.execute(queries.query("rate")).fetchone() or (0, 0.0)
    latency = [
        (group, p50, p99) for group, (p50, p99) in conn.execute(queries.query("latency")).fetchall()
    ]
    _, lag = conn.execute(query("demo", "progress")).fetchone() or (0, 0)
    dead = conn.execute(query("demo", "dead_letters")).fetchall()
    return Figures(handled, seconds or 0.0, latency, lag, dead)


def print_report(screen: Console, checks: list[Any], figures: Figures) -> bool:
    """Print everything; return whether all figures agree and nothing is left to handle."""
    _print_checks(screen, checks)
    _print_dead(screen, figures.dead)
    rate = figures.handled / figures.seconds if figures.seconds else 0.0
    screen.print(
        f"{figures.handled:,} events handled in {figures.seconds:.1f} s ({rate:,.0f} events/s), "
        f"lag {figures.lag}"
    )
    for group, p50, p99 in figures.latency_ms:
        screen.print(f"latency of {group}: median {p50:.1f} ms, 99th percentile {p99:.1f} ms")
    agreed = figures.lag == 0 and not any(check.differences for check in checks)
    verdict = (
        "[bold green]All agrees with the file: nothing lost, nothing twice.[/]"
        if agreed
        else "[bold red]This does NOT agree with the file.[/]"
    )
    screen.print(verdict)
    return agreed


def _print_checks(screen: Console, checks: list[Any]) -> None:
    table = Table(title="Results of the handlers, against figures computed straight from the file")
    for heading in ("check", "expected rows", "rows in the database", "differences"):
        table.add_column(heading, justify="left" if heading == "check" else "right")
    for check in checks:
        table.add_row(
            check.name,
            f"{check.expected_count:,}",
            f"{check.actual_count:,}",
            str(len(check.differences)),
        )
    screen.print(table)
    for check in checks:
        for difference in check.differences[:_DIFFERENCES_SHOWN]:
            screen.print(f"  {check.name}: {difference}", style="red", markup=False)


def _print_dead(screen: Console, dead: list[tuple[Any, ...]]) -> None:
    if not dead:
        screen.print("no dead letters")
        return
    table = Table(title="Dead letters: refused, kept with their error, nothing of them written")
    table.add_column("group")
    table.add_column("reason", overflow="fold")
    table.add_column("flights", justify="right")
    table.add_column("events", justify="right")
    for group, reason, units, events in dead:
        table.add_row(group, reason, f"{units:,}", f"{events:,}")
    screen.print(table)
