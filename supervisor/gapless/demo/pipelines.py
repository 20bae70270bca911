"""The demo's pipelines on Spark, run once after the supervisors have drained."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg import Connection
from rich.console import Console

from gapless.demo.flights import flights


def run_pipelines(
    screen: Console,
    conn: Connection[Any],
    dsn: str,
    folder: Path,
    limit: int | None,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> list[Any]:
    """Run every pipeline of the demo to its end; return the checks of its output.

    The archive is written into `folder`. tell: is called with the events that a pipeline has read,
    and with their total. Raises UsageError without PySpark or Java.
    """
    from gapless.features.spark.home import prepare  # noqa: PLC0415 - only with --spark
    from gapless.features.spark.pipeline.document import load_pipelines  # noqa: PLC0415
    from gapless.features.spark.pipeline.run import run_pipeline  # noqa: PLC0415
    from gapless.features.spark.watched import watched  # noqa: PLC0415

    prepare()
    module = flights("hourly")
    declared = folder / "pipelines.yml"
    shutil.copy(Path(module.__file__ or "").with_name("pipelines.yml"), declared)
    screen.print("Two pipelines on Spark …")
    for pipeline in load_pipelines(declared).values():
        with watched(dsn, [pipeline.name], tell):
            run_pipeline(pipeline, dsn, master="local[2]", tell=_say)
    return list(module.verify(conn, folder / "flights-archive", limit))


def _say(line: str) -> None:
    """Print a line on stderr, where a bar gives way to it."""
    sys.stderr.write(f"  {line}\n")
