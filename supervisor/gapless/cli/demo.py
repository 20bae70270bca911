"""The `demo` command: its options."""

from __future__ import annotations

import argparse

from gapless.cli.context import said_dsn
from gapless.cli.parser import whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--flights",
        type=whole(1),
        metavar="N",
        help="only the first N flights (default: all 6099)",
    )
    parser.add_argument(
        "--speed",
        type=_not_negative,
        default=600,
        metavar="N",
        help="flights published per second; 0: as fast as it goes (default: 600)",
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help="also run two pipelines on Spark: a Parquet archive, and a table hour by hour",
    )
    parser.add_argument(
        "--gateway",
        nargs="?",
        const="127.0.0.1:8080",
        metavar="HOST:PORT",
        help="serve the log over HTTP while it plays (without an address: 127.0.0.1:8080)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the database, in place of one kept before on the demo's own server, let that "
        "server run, and say what to do next",
    )


def main(args: argparse.Namespace) -> int:
    """Run the demo on the server that was named, or on one of its own."""
    # Heavy imports only when it runs.
    from gapless.demo.play import Programme, play  # noqa: PLC0415

    programme = Programme(
        flights=args.flights,
        flights_per_s=args.speed,
        spark=args.spark,
        keep=args.keep,
        gateway=args.gateway,
    )
    return play(programme, said_dsn(args))


def _not_negative(text: str) -> float:
    number = float(text)
    if not number >= 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number
