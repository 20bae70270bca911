"""The `run` command: be one of the supervisors of an application."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from gapless.cli.context import load_all, server_dsn
from gapless.cli.on_spark import add_spark_arguments, spark_conf

if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket

    from gapless.settings import Loaded, Settings
    from gapless.status.console import Letters
    from gapless.worker.plan import HandlerSource, Plan

PARTITIONS_PER_ENDPOINT = 64  # of a supervisor that only delivers: a process for each webhook


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "app",
        nargs="*",
        help="where the handlers are: module, module:handler, path/file.py (default: app and "
        "handlers of the configuration)",
    )
    parser.add_argument("--group", dest="group_id", help="the group of handlers that name none")
    parser.add_argument("--name", dest="instance_name", help="what people call this instance")
    parser.add_argument(
        "--capacity", type=int, metavar="N", help="take at most N partitions (default: no limit)"
    )
    parser.add_argument(
        "--partitions-per-worker",
        type=int,
        metavar="N",
        help="let a worker process serve up to N partitions (default: 1)",
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes for each queue group (default: 4)"
    )
    parser.add_argument(
        "--engine",
        choices=("processes", "spark"),
        default="processes",
        help="where handlers run: processes of this machine, or tasks of Spark, driven from here",
    )
    add_spark_arguments(parser, where="with --engine spark: ", before="spark-defaults.conf")
    parser.add_argument("--batch-size", type=int, metavar="N", help="events per claim")
    parser.add_argument(
        "--create-topics",
        action="store_const",
        const=True,
        help="make the topics that the handlers name and nobody made (default: refuse to start)",
    )
    parser.add_argument(
        "--exit-on-revoked",
        action="store_const",
        const=True,
        help="end when the role loses its grants (default: wait for their return)",
    )
    parser.add_argument(
        "--webhooks",
        action="store_true",
        help="deliver to the webhooks there are (gapless webhooks), and to those that come; "
        'needs "gapless[webhooks]"',
    )
    _add_watching(parser)


def _add_watching(parser: argparse.ArgumentParser) -> None:
    """Declare how it can be watched."""
    parser.add_argument(
        "--log-format",
        choices=("auto", "text", "json"),
        help="text or JSON lines; auto: the live console on a terminal, else text (default: auto)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="where metrics and health can be read: /metrics, /healthz, /readyz (default: nowhere)",
    )
    parser.add_argument(
        "--no-console", action="store_true", help="log lines instead of the live console"
    )


_FLAGS = (
    "group_id",
    "instance_name",
    "capacity",
    "partitions_per_worker",
    "workers",
    "batch_size",
    "create_topics",
    "exit_on_revoked",
    "log_format",
    "metrics",
)


_NO_SCREEN = ("dumb", "unknown")  # terminals that only print


def main(args: argparse.Namespace) -> int:
    """Supervise until SIGTERM or Ctrl-C; 0 when drained."""
    if os.getpid() == 1:  # of a container
        from gapless.worker.pid_one import work_in_a_child  # noqa: PLC0415 - only there

        return work_in_a_child(lambda: _run(args))
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    # Heavy imports only when it runs: `gapless --help` stays fast.
    from gapless.errors import UsageError  # noqa: PLC0415
    from gapless.worker.supervisor import Supervisor  # noqa: PLC0415

    conf = spark_conf(args)
    if args.engine != "spark" and (conf or args.master):
        option = "--conf" if conf else "--master"
        raise UsageError(f"{option} is for Spark: add --engine spark, or leave it out")
    if args.webhooks and args.engine == "spark":
        raise UsageError("webhooks are delivered by processes: leave --engine spark out")
    flags = {name: getattr(args, name) for name in _FLAGS if getattr(args, name) is not None}
    loaded = load_all(args, flags)
    settings = loaded.settings
    references = args.app or [*([settings.app] if settings.app else []), *settings.handlers]
    if not references and not args.webhooks:
        raise UsageError(
            "which handlers? Name them: gapless run module, gapless run path/app.py, "
            "or app: in the configuration; or deliver to webhooks: gapless run --webhooks"
        )
    plan = _plan(args, loaded, references)
    metrics = _listen(settings.metrics)
    if args.engine == "spark":
        from gapless.spark.serve import serve_on_spark  # noqa: PLC0415

        _log_on(settings.log_format, metrics)
        return serve_on_spark(
            plan, tuple(references), master=args.master, conf=conf, metrics=metrics
        )
    wants_console = settings.log_format == "auto" and not args.no_console
    if sys.stdout.isatty() and os.environ.get("TERM") not in _NO_SCREEN and wants_console:
        from gapless.worker.console import supervise_with_console  # noqa: PLC0415

        return supervise_with_console(plan, _letters, metrics)
    _log_on(settings.log_format, metrics)
    return Supervisor(plan, metrics=metrics).run()


def _letters() -> Letters:
    from gapless.ops.dlq.letters import LETTERS  # noqa: PLC0415 - in the console's process alone

    return LETTERS


def _plan(args: argparse.Namespace, loaded: Loaded, references: Sequence[str]) -> Plan:
    """Return what is to be run. Raises UsageError for what cannot be."""
    from gapless.consume.user.load import load_handlers  # noqa: PLC0415 - as above
    from gapless.log.schedules import Schedule  # noqa: PLC0415 - as above
    from gapless.worker.plan import make_plan  # noqa: PLC0415 - as above

    settings = loaded.settings
    handlers = [handler for reference in references for handler in load_handlers(reference)]
    dsn = server_dsn(args, settings)
    if args.webhooks and not references and loaded.sources["partitionsPerWorker"] == "default":
        settings = replace(settings, partitions_per_worker=PARTITIONS_PER_ENDPOINT)
    return make_plan(
        settings,
        dsn,
        handlers,
        # The default asks for nothing: a topic may have been given another number since.
        asks_partitions=loaded.sources["totalPartitions"] != "default",
        schedules=[Schedule(**each.record()) for each in loaded.schedules],
        source=_webhooks(settings, dsn) if args.webhooks else None,
    )


def _webhooks(settings: Settings, dsn: str) -> HandlerSource:
    """Return who knows of webhooks. Raises UsageError where they cannot be delivered."""
    from gapless.ops.webhooks import require_extra  # noqa: PLC0415 - not for --help

    require_extra()
    from gapless.webhooks.fleet import Webhooks  # noqa: PLC0415 - needs an extra

    return Webhooks(settings, dsn)


def _log_on(log_format: str, metrics: socket | None) -> None:
    """Have lines of the log, and say where metrics can be read."""
    import logging  # noqa: PLC0415 - not for --help

    from gapless.logs import set_up_logs  # noqa: PLC0415 - as above

    set_up_logs(log_format)
    if metrics is not None:
        host, port = metrics.getsockname()[:2]
        logging.getLogger("gapless.supervisor").info("metrics: port %s of %s", port, host)


def _listen(address: str | None) -> socket | None:
    """Open the socket for metrics, before anything else begins; None: nobody asked for it.

    Raises UsageError when that cannot be.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - not for --help

    from gapless.errors import UsageError  # noqa: PLC0415 - as above
    from gapless.worker.exporter.serve import open_socket  # noqa: PLC0415 - as above

    if address is None:
        return None
    if find_spec("prometheus_client") is None:
        raise UsageError('metrics need prometheus-client: pip install "gapless[metrics]"')
    return open_socket(address)
