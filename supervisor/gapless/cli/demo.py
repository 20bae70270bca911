"""The `demo` command: its options."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gapless.cli.context import load_all
from gapless.cli.declare import Args, Command, flag, opt
from gapless.cli.parser import number, whole
from gapless.cli.progress import Steps
from gapless.ops.find import configured_dsn

command = Command("demo")


@command.main(
    opt("--flights N", "only the first N flights (default: all 6099)", whole(1)),
    opt(
        "--speed N",
        "flights published per second; 0: as fast as it goes (default: 600)",
        number(0),
        default=600,
    ),
    flag("--spark", "also run two pipelines on Spark: a Parquet archive, and a table hour by hour"),
    opt(
        "--gateway HOST:PORT",
        "serve the log over HTTP while it plays (without an address: 127.0.0.1:8080)",
        nargs="?",
        const="127.0.0.1:8080",
    ),
    flag(
        "--keep",
        "keep the database, in place of one kept before on the demo's own server, let that "
        "server run, and say what to do next",
    ),
    json=False,
    connects=False,
)
def _demo(args: Args) -> int:
    """Run the demo on the server that was named, or on one of its own."""
    # Heavy imports only when it runs.
    from gapless.demo.play import Programme, play  # noqa: PLC0415

    programme = Programme(
        flights=args.flights,
        flights_per_s=args.speed,
        spark=args.spark,
        keep=args.keep,
        gateway=args.gateway,
        lasting=_lasting,
    )
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) != signal.SIG_IGN:  # such as SIGHUP under nohup
            signal.signal(each, signal.default_int_handler)
    return play(programme, configured_dsn(load_all(args).settings))


@contextmanager
def _lasting(title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    with Steps(title, None, unit, from_first=True) as steps:
        yield steps.show_of
