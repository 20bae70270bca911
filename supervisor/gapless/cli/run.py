"""The `run` command: run one of the supervisors of an application."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from socket import socket
from typing import TYPE_CHECKING

from gapless import feature
from gapless.cli.context import load_all, server_dsn
from gapless.cli.declare import Args, Command, flag, opt
from gapless.consume.user.load import load_handlers
from gapless.errors import UsageError
from gapless.features.metrics.serve import open_metrics
from gapless.features.spark.asked import on_spark, spark_conf
from gapless.logs import set_up_logs
from gapless.worker.pid_one import as_any_process
from gapless.worker.plan import Plan, make_plan

if TYPE_CHECKING:
    from gapless.feature import SourceOption
    from gapless.settings import Loaded
    from gapless.status.console import Letters

PARTITIONS_PER_HANDLER = 64  # where handlers come and go: a process for each is enough
_FLAGS = (
    *("group_id", "instance_name", "capacity", "partitions_per_worker", "workers", "batch_size"),
    *("create_topics", "exit_on_revoked", "log_format", "metrics"),
)
_NO_SCREEN = ("dumb", "unknown")  # terminals that only print
_source = next(feature.given(lambda each: each.source), None)
command = Command("run")


@command.main(
    opt(
        "app",
        "where the handlers are: module, module:handler, path/file.py (default: app and "
        "handlers of the configuration)",
        nargs="*",
    ),
    opt("--group", "the group of handlers that name none", dest="group_id"),
    opt("--name", "a name for this instance", dest="instance_name"),
    opt("--capacity N", "take at most N partitions (default: no limit)", int),
    opt(
        "--partitions-per-worker N",
        "let a worker process serve up to N partitions; auto: as many as fast handlers allow, by "
        "few workers (default: 1)",
    ),
    opt("--workers N", "processes for each queue group (default: 4)", int),
    opt(
        "--engine",
        "where handlers run: processes of this machine, or tasks of Spark, driven from here",
        choices=("processes", "spark"),
        default="processes",
    ),
    *on_spark(where="with --engine spark: ", before="spark-defaults.conf"),
    opt("--batch-size N", "events per claim", int),
    opt(
        "--create-topics",
        "make the missing topics of the handlers (default: refuse to start)",
        action="store_const",
        const=True,
    ),
    opt(
        "--exit-on-revoked",
        "end when the role loses its grants (default: wait for their return)",
        action="store_const",
        const=True,
    ),
    *([] if _source is None else [flag(f"--{_source.option}", _source.summary)]),
    opt(
        "--log-format",
        "text or JSON lines; auto: the live console on a terminal, else text (default: auto)",
        choices=("auto", "text", "json"),
    ),
    opt(
        "--metrics HOST:PORT",
        "where metrics and health can be read: /metrics, /healthz, /readyz (default: nowhere)",
    ),
    flag("--no-console", "log lines instead of the live console"),
    json=False,
    connects=False,
)
def _run(args: Args) -> int:
    """Supervise until SIGTERM or Ctrl-C; 0 when drained."""
    return as_any_process(lambda: _supervise(args))


def _supervise(args: Args) -> int:
    conf = spark_conf(args)
    if args.engine != "spark" and (conf or args.master):
        option = "--conf" if conf else "--master"
        raise UsageError(f"{option} is for Spark: add --engine spark, or leave it out")
    source = _asked_source(args)
    if source is not None and args.engine == "spark":
        raise UsageError(f"{source.option} are delivered by processes: leave --engine spark out")
    loaded = load_all(args, *_FLAGS)
    settings = loaded.settings
    references = args.app or [*([settings.app] if settings.app else []), *settings.handlers]
    if not references and source is None:
        other = "" if _source is None else f"; or {_source.deed}: gapless run --{_source.option}"
        raise UsageError(
            "which handlers? Name them: gapless run module, gapless run path/app.py, "
            f"or app: in the configuration{other}"
        )
    plan = _plan(loaded, references, source)
    metrics = None if settings.metrics is None else open_metrics(settings.metrics)
    if args.engine == "spark":
        from gapless.features.spark.serve import serve_on_spark  # noqa: PLC0415

        _log_on(settings.log_format, metrics)
        return serve_on_spark(
            plan, tuple(references), master=args.master, conf=conf, metrics=metrics
        )
    from gapless.features.metrics.keep import ExporterKeeper  # noqa: PLC0415 - with the supervisor

    make_exporter = partial(ExporterKeeper, plan, metrics)
    wants_console = settings.log_format == "auto" and not args.no_console
    if sys.stdout.isatty() and os.environ.get("TERM") not in _NO_SCREEN and wants_console:
        from gapless.worker.console import supervise_with_console  # noqa: PLC0415

        return supervise_with_console(plan, _letters, make_exporter)
    _log_on(settings.log_format, metrics)
    from gapless.worker.supervisor import Supervisor  # noqa: PLC0415 - half of the time of --help

    return Supervisor(plan, make_exporter=make_exporter).run()


def _letters() -> Letters:
    from gapless.ops.dlq.letters import LETTERS  # noqa: PLC0415 - in the console's process alone

    return LETTERS


def _asked_source(args: Args) -> SourceOption | None:
    return _source if _source is not None and getattr(args, _source.option) else None


def _plan(loaded: Loaded, references: Sequence[str], source: SourceOption | None) -> Plan:
    """Return the plan of the supervisor. Raises UsageError if it cannot be run."""
    settings = loaded.settings
    handlers = [handler for reference in references for handler in load_handlers(reference)]
    dsn = server_dsn(settings)
    by_default = loaded.sources["partitionsPerWorker"] == "default"
    if source is not None and not references and by_default:
        settings = replace(settings, partitions_per_worker=PARTITIONS_PER_HANDLER)
    return make_plan(
        settings,
        dsn,
        handlers,
        # The default requires nothing: the topic may have been given another number since.
        asks_partitions=loaded.sources["totalPartitions"] != "default",
        declared=[each.made() for each in loaded.declared],
        source=None if source is None else source.make(settings, dsn),
    )


def _log_on(log_format: str, metrics: socket | None) -> None:
    """Turn the log on, and log the address of the metrics."""
    set_up_logs(log_format)
    if metrics is not None:
        host, port = metrics.getsockname()[:2]
        logging.getLogger("gapless.supervisor").info("metrics: port %s of %s", port, host)
