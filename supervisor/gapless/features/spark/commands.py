"""The `pipeline` command: run pipelines on Spark, list them, show their progress, reset them."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.cli.context import load_all, server_dsn
from gapless.cli.declare import Args, Command, Conn, flag, opt, yes
from gapless.cli.progress import Steps, is_quiet
from gapless.cli.screen import answer, listed, remark, say
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.asked import on_spark, spark_conf
from gapless.features.spark.ops import declared_pipelines, remove_pipeline
from gapless.features.spark.pipeline.compact import compact_pipeline
from gapless.features.spark.pipeline.document import Pipeline, load_pipelines
from gapless.features.spark.pipeline.position import list_pipelines, reset_pipeline
from gapless.features.spark.pipeline.verify import verify
from gapless.ops.text import json_text, quantity

if TYPE_CHECKING:
    from gapless.features.spark.pipeline.fleet import Fleet

EXAMPLES = """\
examples:
  gapless pipeline list
  gapless pipeline run archive
  gapless pipeline run archive --once --master 'local[4]'
  gapless pipeline run --all
  gapless pipeline status
  gapless pipeline verify archive
  gapless pipeline compact archive --before 2026-01-31
  gapless pipeline reset archive --to earliest
  gapless pipeline remove archive --yes
"""
command = Command("pipeline")
_FILE = opt("--file", "default: pipelines.yml", Path, default=Path("pipelines.yml"))


@command.verb("list the pipelines of the file (also without a verb)", _FILE, connects=False)
def _list(args: Args) -> int:
    return listed(args, declared_pipelines(args.file), "no pipeline")


@command.verb(
    "run some until Ctrl-C, each where it was; of several instances one runs each",
    opt("names NAME", "one or more of the file", nargs="*"),
    flag("--all", "all of the file"),
    flag("--once", "handle the present events, then end"),
    *on_spark(before="conf: of the file, which goes before spark-defaults.conf"),
    opt(
        "--metrics HOST:PORT",
        "where the log's metrics can be read while it runs (default: nowhere)",
    ),
    _FILE,
    json=False,
    connects=False,
)
def _run(args: Args) -> int:
    from gapless.features.spark.exporter import log_served
    from gapless.features.spark.pipeline.fleet import Fleet, Stop

    conf = spark_conf(args)
    pipelines = _chosen(args)
    settings = load_all(args, "metrics").settings
    dsn = server_dsn(settings)
    fleet = Fleet(pipelines, dsn, master=args.master, conf=conf, tell=remark)
    # A supervisor of this machine may have the address of the configuration.
    with log_served(settings.metrics, dsn, None if args.metrics else remark) as port:
        if port is not None:
            remark(f"metrics: port {port}")
        if args.once:
            return failed(_once(fleet, dsn, [each.name for each in pipelines]), of=len(pipelines))
        stop = Stop()
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: stop.request())
        fleet.stay(stop, drain_s=settings.drain_timeout_ms / 1000)
    return 0


def _once(fleet: Fleet, dsn: str, names: Sequence[str]) -> Mapping[str, GaplessError]:
    """Run pipelines up to the present events; return the errors of those that failed."""
    from gapless.features.spark.watched import watched

    advice = "; the same again does the rest"
    with Steps("pipeline", None, "event", advice, from_first=True) as steps:
        if not steps.shows:
            return fleet.once()
        with watched(dsn, names, steps.show_of):
            return fleet.once(started=steps.begin)


def _chosen(args: Args) -> list[Pipeline]:
    """Return the pipelines that are named, or all. Raises UsageError for none and unknown ones."""
    if args.all == bool(args.names):
        raise UsageError("name one pipeline or more of the file, or all by --all, and not both")
    pipelines = load_pipelines(args.file)
    for name in args.names:
        if name not in pipelines:
            raise UsageError(f"{args.file} has no pipeline {name!r}: {', '.join(pipelines)}")
    return [pipelines[name] for name in dict.fromkeys(args.names or pipelines)]


def failed(errors: Mapping[str, GaplessError], *, of: int) -> int:
    """Print the errors of runs that have ended, each with its name; return the highest exit code.

    Raises the error of the only run. of: the number of runs.
    """
    if of == 1:
        for error in errors.values():
            raise error
    for name, error in errors.items():
        remark(f"{name}: {error}")
    return max((error.exit_code for error in errors.values()), default=0)


@command.verb("show how far all are that ever ran here")
def _status(conn: Conn, args: Args) -> int:
    return listed(args, list_pipelines(conn), "no pipeline ever ran in this database")


@command.verb("read an archive's offsets again; exit code 1 when it is not complete", "name")
def _verify(conn: Conn, args: Args) -> int:
    found = []
    with Steps("verify", None, "partition", is_quiet=is_quiet(args)) as steps:
        for each in verify(conn, args.name):
            found.append(each)
            steps.show(len(found))
    listed(args, found, f"{args.name}: nothing archived yet")
    if any(each.problem is not None for each in found):
        remark(f"{args.name} is not complete: see PROBLEM")
        return 1
    events = sum(each.last - each.first + 1 for each in found)
    remark(f"{args.name} is complete: {quantity(events, 'event')}, each once")
    return 0


@command.verb(
    "merge the small Parquet files of days that are over, while it runs or not",
    "name",
    opt("--before DAY", "days before this one (default: today, in UTC)", date.fromisoformat),
)
def _compact(conn: Conn, args: Args) -> int:
    advice = "; the same again does the rest"
    with Steps("compact", None, "folder", advice, is_quiet=is_quiet(args)) as steps:
        done = compact_pipeline(conn, args.name, before=args.before, tell=steps.show_of)
    return listed(
        args, done, f"{args.name}: no folder of a day that is over has two files to merge"
    )


@command.verb(
    "let one begin anew; its output stays",
    "name",
    opt("--to", choices=("earliest", "latest"), default="earliest"),
)
def _reset(conn: Conn, args: Args) -> int:
    reset_pipeline(conn, args.name, args.to)
    text = f"{args.name} continues at the {args.to} event"
    return answer(args, text, pipeline=args.name, to=args.to)


@command.verb(
    "forget one, and let retention continue without it; without --yes only say what would go",
    "name",
    yes("do it; its output stays"),
)
def _remove(conn: Conn, args: Args) -> int:
    done = remove_pipeline(conn, args.name, dry_run=not args.apply)
    what = {name: value for name, value in asdict(done).items() if name != "left_over"}
    if not done.removed:
        remark(f"nothing was changed: {done}; retention waits for them, and --yes removes it")
        if args.json:
            say(json_text(what))
        return 0
    if done.left_over:
        remark(f"warning: {done.left_over} of an interrupted run stays: its owner may drop it")
    gone = f"removed {done}: retention does not wait for it any more; its output stays"
    return answer(args, gone, **what)
