"""The `pipeline` command: run pipelines on Spark, list them, say how far they are, start anew."""

from __future__ import annotations

import argparse
import signal
import threading
from dataclasses import asdict
from pathlib import Path

from gapless.cli.context import load_settings, open_connection, server_dsn, show_found
from gapless.cli.on_spark import add_spark_arguments, spark_conf
from gapless.cli.parser import Parser, add_confirm, add_verb
from gapless.cli.screen import answer, remark, say, show
from gapless.errors import UsageError
from gapless.ops.pipelines import (
    DeclaredPipeline,
    declared_pipelines,
    list_pipelines,
    remove_pipeline,
    reset_pipeline,
)
from gapless.ops.text import json_text, quantity
from gapless.spark.pipeline.document import load_pipelines
from gapless.spark.pipeline.position import PipelineStanding
from gapless.spark.pipeline.verify import Verified, verify

EXAMPLES = """\
examples:
  gapless pipeline list
  gapless pipeline run archive
  gapless pipeline run archive --once --master 'local[4]'
  gapless pipeline status
  gapless pipeline verify archive
  gapless pipeline reset archive --to earliest
  gapless pipeline remove archive --yes
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    about = "list the pipelines of the file (also without a verb)"
    listing = add_verb(verbs, "list", _list, about)
    running = verbs.add_parser("run", help="run one until Ctrl-C; it continues where it was")
    running.set_defaults(act=_run)
    running.add_argument("name")
    running.add_argument("--once", action="store_true", help="do what there is, then end")
    add_spark_arguments(running, before="conf: of the file, which goes before spark-defaults.conf")
    add_verb(verbs, "status", _status, "show how far all are that ever ran here")
    about = "read an archive's offsets again; exit code 1 when it is not complete"
    add_verb(verbs, "verify", _verify, about).add_argument("name")
    resetting = add_verb(verbs, "reset", _reset, "let one begin anew; what it wrote stays")
    resetting.add_argument("name")
    resetting.add_argument("--to", choices=("earliest", "latest"), default="earliest")
    about = "forget one, and let retention continue without it; without --yes only say what"
    removal = add_verb(verbs, "remove", _remove, about)
    removal.add_argument("name")
    add_confirm(removal, "do it; what it wrote stays")
    for each in (listing, running):
        each.add_argument(
            "--file", type=Path, default=Path("pipelines.yml"), help="default: pipelines.yml"
        )


def _list(args: argparse.Namespace) -> int:
    rows = declared_pipelines(args.file)
    show(DeclaredPipeline, rows, as_json=args.json, empty="no pipeline")
    return 0


def _run(args: argparse.Namespace) -> int:
    from gapless.spark.pipeline.run import run_pipeline  # noqa: PLC0415

    conf = spark_conf(args)
    pipelines = load_pipelines(args.file)
    if args.name not in pipelines:
        raise UsageError(f"{args.file} has no pipeline {args.name!r}: {', '.join(pipelines)}")
    dsn = server_dsn(args, load_settings(args))
    stop = threading.Event()
    if not args.once:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, lambda *_: stop.set())
    events = run_pipeline(
        pipelines[args.name],
        dsn,
        master=args.master,
        conf=conf,
        tell=remark,
        wait=None if args.once else lambda seconds: not stop.wait(seconds),
    )
    say(f"{args.name}: {quantity(events, 'event')}")
    return 0


def _status(args: argparse.Namespace) -> int:
    empty = "no pipeline ever ran in this database"
    return show_found(args, "pipeline", PipelineStanding, list_pipelines, empty)


def _verify(args: argparse.Namespace) -> int:
    with open_connection(args, "pipeline") as conn:
        found = list(verify(conn, args.name))
    show(Verified, found, as_json=args.json, empty=f"{args.name}: nothing archived yet")
    problems = [each for each in found if each.problem is not None]
    events = sum(each.last - each.first + 1 for each in found)
    if problems:
        remark(f"{args.name} is not complete: see PROBLEM")
    else:
        remark(f"{args.name} is complete: {quantity(events, 'event')}, each once")
    return 1 if problems else 0


def _reset(args: argparse.Namespace) -> int:
    with open_connection(args, "pipeline") as conn:
        reset_pipeline(conn, args.name, args.to)
    answer(args, f"{args.name} continues at the {args.to} event", pipeline=args.name, to=args.to)
    return 0


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "pipeline") as conn:
        done = remove_pipeline(conn, args.name, dry_run=not args.apply)
    topics = ", ".join(done.topics) or "no topic"
    unread = quantity(done.unread, "event")
    text = f"pipeline {done.pipeline} of {topics}, which has {unread} yet to read"
    what = {name: value for name, value in asdict(done).items() if name != "left_over"}
    if not done.removed:
        remark(f"nothing was changed: {text}; retention waits for them, and --yes removes it")
        if args.json:
            say(json_text(what))
        return 0
    if done.left_over:
        remark(f"warning: {done.left_over} of an interrupted run stays: its owner may drop it")
    gone = f"removed {text}: retention does not wait for it any more; what it wrote stays"
    answer(args, gone, **what)
    return 0
