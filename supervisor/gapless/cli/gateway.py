"""The `gateway` command: the log over HTTP."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from gapless.cli.context import load_settings, open_connection, server_dsn

if TYPE_CHECKING:
    from gapless.gateway.tls import Certificate

EXAMPLES = """\
It keeps nothing: start as many as you like behind any balancer. SIGTERM lets requests finish.
docs/gateway.md has the routes; /openapi.json describes them.

examples:
  gapless gateway
  gapless gateway --listen 127.0.0.1:0
  curl -d '{"payload": {"total": 5}, "key": "AA"}' -H 'Content-Type: application/json' \\
    http://127.0.0.1:8080/v1/topics/orders/events
"""
_LISTEN = "127.0.0.1:8080"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--listen",
        dest="gateway",
        metavar="HOST:PORT",
        help=f"where; port 0 is any that is free (default: {_LISTEN})",
    )
    parser.add_argument(
        "--sessions",
        dest="gateway_sessions",
        type=int,
        metavar="N",
        help="sessions with the database: requests at a time (default: 16)",
    )
    parser.add_argument(
        "--keys",
        action="store_true",
        help="ask everybody for a key (gapless keys); without it only this machine is listened to",
    )
    parser.add_argument(
        "--tokens",
        metavar="FILE",
        help="ask for a token (JWT) of the issuer that the file describes (docs/gateway.md)",
    )
    parser.add_argument(
        "--operate", action="store_true", help="have the routes for what an operator does, too"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="speak TLS: certificate and chain, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM; SIGHUP reads both again")
    parser.add_argument(
        "--behind-proxy",
        metavar="ADDRESSES",
        help="what speaks TLS in front of it: X-Forwarded-For counts from there, and only there",
    )
    parser.add_argument(
        "--connections-per-address",
        type=int,
        default=1_000,
        metavar="N",
        help="of a client at a time; a proxy has any number (default: 1000)",
    )
    parser.add_argument(
        "--log-format", choices=("auto", "text", "json"), help="text or JSON lines (default: text)"
    )


_FLAGS = ("gateway", "gateway_sessions", "log_format")


def main(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C; 0 when requests have finished."""
    if os.getpid() == 1:  # of a container
        from gapless.worker.pid_one import work_in_a_child  # noqa: PLC0415 - only there

        return work_in_a_child(lambda: _serve(args))
    return _serve(args)


def _serve(args: argparse.Namespace) -> int:
    from importlib.util import find_spec  # noqa: PLC0415 - not for --help

    from gapless.errors import UsageError  # noqa: PLC0415 - as above
    from gapless.logs import set_up_logs  # noqa: PLC0415 - as above
    from gapless.worker.exporter.serve import open_socket  # noqa: PLC0415 - as above

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UsageError('a gateway needs starlette and uvicorn: pip install "gapless[http]"')
    from gapless.gateway.gateway import Limits  # noqa: PLC0415 - an extra
    from gapless.gateway.serve import ServeSpec, require_safe, serve  # noqa: PLC0415 - as above

    flags = {name: getattr(args, name) for name in _FLAGS if getattr(args, name) is not None}
    settings = load_settings(args, flags)
    spec = ServeSpec(
        dsn=server_dsn(args, settings),
        sessions=settings.gateway_sessions,
        connect_timeout_s=settings.connect_timeout_s,
        drain_timeout_s=settings.drain_timeout_ms / 1000,
        limits=Limits(
            event_bytes_max=settings.max_event_bytes, batch_bytes_max=settings.max_batch_bytes
        ),
        asks_keys=args.keys,
        tokens=args.tokens,
        operates=args.operate,
        certificate=_certificate(args),
        proxies=tuple((args.behind_proxy or "").replace(",", " ").split()),
        connections_per_address=args.connections_per_address,
    )
    with open_connection(args, "gateway", settings):
        pass  # what waiting does not mend is said at once
    listening = open_socket(settings.gateway or _LISTEN, "a gateway cannot listen")
    require_safe(listening, spec)
    set_up_logs(settings.log_format)
    return serve(listening, spec)


def _certificate(args: argparse.Namespace) -> Certificate | None:
    from gapless.errors import UsageError  # noqa: PLC0415 - as above
    from gapless.gateway.tls import Certificate  # noqa: PLC0415 - as above

    if args.connections_per_address < 1:
        raise UsageError("--connections-per-address: at least 1")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise UsageError("--tls-cert and --tls-key go together")
    return Certificate(args.tls_cert, args.tls_key) if args.tls_cert else None
