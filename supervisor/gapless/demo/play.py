"""Play the demo: stage, producers, supervisors, console, and the check at the end."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from psycopg import Connection
from rich.console import Console

from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.demo.flights import flights
from gapless.demo.kept import OWN_SERVER, database_of, tell_next, tell_of_keeping
from gapless.demo.pipelines import run_pipelines
from gapless.demo.producers import start_producers
from gapless.demo.report import measure, print_report
from gapless.demo.served import gateway
from gapless.demo.stage import RunningDemo, crew, fresh_database, install_demo
from gapless.errors import GaplessError
from gapless.features.server.control import stay
from gapless.features.server.server import EmbeddedServer, acquire

JOIN_S_MAX = 30.0
STANDSTILL_S_MAX = 60.0
LOOK_EVERY_S = 0.25
Tell = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """The demo's options. flights: only the first ones (None: all). flights_per_s: 0 is no limit.

    spark: two pipelines on Spark, too. keep: leave the database, and explain how to use it.
    gateway: HOST:PORT at which the log is served over HTTP while the demo plays; None: nowhere.
    lasting: shows a bar for a title and a unit, and yields a function that takes the number done
    and the total.
    """

    flights: int | None = None
    flights_per_s: float = 600
    spark: bool = False
    keep: bool = False
    gateway: str | None = None
    lasting: Callable[[str, str], contextlib.AbstractContextManager[Tell]]


def play(programme: Programme, configured_dsn: str | None) -> int:
    """Run the demo; return 0 only if everything agrees with the file."""
    screen = Console()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gapless-demo-")))
        own = None if configured_dsn is not None else stack.enter_context(_own_server(screen))
        server = configured_dsn if own is None else own.dsn
        assert server is not None
        dsn = stack.enter_context(fresh_database(server, keep=programme.keep))
        agreed = _play(screen, programme, dsn, folder)
        if not programme.keep:
            tell_of_keeping(screen)
        else:
            if own is not None:
                dsn = database_of(server, dsn)
                stay(own)
            with connect(dsn, role="demo") as conn:
                tell_next(screen, conn, dsn, own_server=own is not None)
    return 0 if agreed else 1


def _own_server(screen: Console) -> EmbeddedServer:
    screen.print("Starting a PostgreSQL of its own …")
    return acquire(name=OWN_SERVER)


def _play(screen: Console, programme: Programme, dsn: str, folder: Path) -> bool:
    with connect(dsn, role="demo") as conn:
        with programme.lasting("schema", "file") as tell:
            install_demo(conn, tell)
        truth = flights("truth").compute(programme.flights)
        with _served(screen, programme, dsn, folder), crew(dsn, folder) as supervisors:
            screen.print("Two supervisors, two consumer groups, eight partitions: sharing them …")
            with programme.lasting("sharing", "partition") as tell:
                _wait_until_joined(conn, supervisors, tell)
            with _show(screen, dsn, conn) as show:
                _run(
                    conn,
                    supervisors,
                    show,
                    start_producers(dsn, programme.flights, programme.flights_per_s),
                )
            screen.print("Draining …")
        checks = flights("verify").verify(conn, truth)
        if programme.spark:
            with programme.lasting("pipelines", "event") as tell:
                checks += run_pipelines(screen, conn, dsn, folder, programme.flights, tell)
        return print_report(screen, checks, measure(conn))


def _served(
    screen: Console, programme: Programme, dsn: str, folder: Path
) -> contextlib.AbstractContextManager[None]:
    if programme.gateway is None:
        return contextlib.nullcontext()
    return gateway(screen, dsn, folder, programme.gateway)


def _wait_until_joined(conn: Connection[Any], supervisors: RunningDemo, tell: Tell) -> None:
    deadline = monotonic() + JOIN_S_MAX
    while True:
        supervisors.check()
        owned, partitions = conn.execute(query("demo", "owned")).fetchone() or (0, 0)
        tell(owned, partitions)
        if partitions and owned == partitions:
            return
        if monotonic() > deadline:
            raise GaplessError(f"only {owned} of {partitions} partitions have an owner")
        sleep(0.05)


def _run(
    conn: Connection[Any], supervisors: RunningDemo, show: Callable[[], None], producers: list[Any]
) -> None:
    """Show progress until everything is published and handled."""
    try:
        moved_s, before = monotonic(), None
        while True:
            show()
            supervisors.check()
            publishing = any(producer.is_alive() for producer in producers)
            now = conn.execute(query("demo", "progress")).fetchone()
            pending = conn.execute(query("log", "pending")).fetchone()
            if not publishing and now is not None and now[1] == 0 and pending == (False,):
                break
            if now != before:
                moved_s, before = monotonic(), now
            if monotonic() - moved_s > STANDSTILL_S_MAX:
                raise GaplessError(f"nothing has moved for {STANDSTILL_S_MAX:.0f} s: {now}")
            sleep(LOOK_EVERY_S)
        if any(producer.exitcode for producer in producers):
            raise GaplessError("a producer failed: see its error above")
    finally:
        for producer in producers:
            producer.kill()
            producer.join()


@contextlib.contextmanager
def _show(screen: Console, dsn: str, conn: Connection[Any]) -> Iterator[Callable[[], None]]:
    """Yield a function to call now and then, which shows the progress."""
    if not screen.is_terminal or screen.is_dumb_terminal:
        yield _lines(conn)
        return
    from gapless.ops.dlq.letters import LETTERS  # noqa: PLC0415 - as below
    from gapless.status.console import LiveConsole  # noqa: PLC0415 - only on a terminal
    from gapless.status.loop import SnapshotLoop  # noqa: PLC0415 - as above
    from gapless.status.view import ConsoleState  # noqa: PLC0415 - as above

    way_out = "gapless demo: the check comes at the end"
    live = LiveConsole(LETTERS, ConsoleState(way_out=way_out, has_keys=False), screen)
    with SnapshotLoop(lambda: connect(dsn, role="console"), live, interval_s=0.5) as looker, live:
        yield looker.tick


def _lines(conn: Connection[Any]) -> Callable[[], None]:
    due_s = 0.0

    def look() -> None:
        nonlocal due_s
        if monotonic() < due_s:
            return
        due_s = monotonic() + 2.0
        published, lag = conn.execute(query("demo", "progress")).fetchone() or (0, 0)
        sys.stderr.write(f"{published:,} events published, lag {lag:,}\n")

    return look
