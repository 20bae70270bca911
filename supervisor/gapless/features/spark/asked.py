"""Options of the commands that run on Spark: the master and the settings."""

from __future__ import annotations

import argparse

from gapless.cli.declare import Argument, opt
from gapless.errors import UsageError


def on_spark(*, before: str, where: str = "") -> tuple[Argument, Argument]:
    """Return --master and --conf, which override `before`; `where`: when both may be given."""
    setting = f"{where}a setting of Spark; repeat freely. It goes before {before}"
    return (
        opt("--master", f"{where}where Spark runs (default: local[*], this machine)"),
        opt("--conf NAME=VALUE", setting, action="append", default=[]),
    )


def spark_conf(args: argparse.Namespace) -> dict[str, str]:
    """Return the settings of --conf; the last of a name wins. Raises UsageError for other texts."""
    if not args.conf:
        return {}  # a run without Spark imports nothing of it
    from gapless.features.spark.conf import parse_conf

    try:
        return dict(map(parse_conf, args.conf))
    except UsageError as error:
        raise UsageError(f"--conf {error}") from None
