"""The `gateway` command: the log over HTTP."""

from __future__ import annotations

import logging
import os
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gapless.cli.context import load_all, open_connection, server_dsn
from gapless.cli.declare import Args, Command, flag, opt
from gapless.errors import UsageError
from gapless.features.gateway.settings import LISTEN, GatewaySettings
from gapless.features.metrics.serve import open_socket
from gapless.logs import set_up_logs
from gapless.settings import load
from gapless.worker.pid_one import as_any_process

if TYPE_CHECKING:
    from gapless.features.gateway.tls import Certificate

EXAMPLES = """\
It keeps nothing: start as many as you like behind any balancer. SIGTERM lets requests finish.
docs/use/gateway.md has the routes; /openapi.json describes them.

examples:
  gapless gateway
  gapless gateway --listen 127.0.0.1:0
  curl -d '{"payload": {"total": 5}, "key": "AA"}' -H 'Content-Type: application/json' \\
    http://127.0.0.1:8080/v1/topics/orders/events
"""
command = Command("gateway")


@command.main(
    opt(
        "--listen HOST:PORT",
        f"where; port 0 is any that is free (default: {LISTEN})",
        dest="gateway",
    ),
    opt(
        "--sessions N",
        "sessions with the database: requests at a time (default: 16)",
        int,
        dest="gateway_sessions",
    ),
    flag(
        "--keys",
        "ask every client for a key (gapless keys); without it only this machine is listened to",
    ),
    opt(
        "--tokens FILE",
        "ask for a token (JWT) of the issuer that the file describes (docs/use/gateway.md)",
    ),
    flag("--operate", "serve the routes of operators, too"),
    opt("--tls-cert FILE", "speak TLS: certificate and chain, PEM"),
    opt("--tls-key FILE", "its key, PEM; SIGHUP reads both again"),
    opt(
        "--behind-proxy ADDRESSES",
        "of the proxy with TLS in front of it: X-Forwarded-For counts from there, and only there",
    ),
    opt(
        "--host NAME",
        "a name that it has, beside localhost; repeat for several (docs/use/gateway.md)",
        action="append",
        default=[],
    ),
    opt(
        "--connections-per-address N",
        "of a client at a time; a proxy has any number (default: 1000)",
        int,
        default=1_000,
    ),
    opt(
        "--access-log LEVEL",
        "a line of the log for each request: error for those that fail, warning for those that are "
        "refused, too, info for all (default: none)",
        choices=("error", "warning", "info"),
    ),
    opt("--log-format", "text or JSON lines (default: text)", choices=("auto", "text", "json")),
    json=False,
    connects=False,
)
def _gateway(args: Args) -> int:
    """Serve until SIGTERM or Ctrl-C; 0 when requests have finished."""
    return as_any_process(lambda: _serve(args))


def _serve(args: Args) -> int:
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UsageError('a gateway needs starlette and uvicorn: pip install "gapless[http]"')
    from gapless.features.gateway.gateway import Limits  # noqa: PLC0415 - an extra
    from gapless.features.gateway.serve import ServeSpec, require_safe, serve  # noqa: PLC0415 - as above

    settings = load_all(args, "gateway", "gateway_sessions", "log_format").settings
    own = settings.of(GatewaySettings)
    spec = ServeSpec(
        dsn=server_dsn(settings),
        sessions=own.gateway_sessions,
        connect_timeout_s=settings.connect_timeout_s,
        drain_timeout_s=settings.drain_timeout_ms / 1000,
        limits=Limits(
            event_bytes_max=own.max_event_bytes,
            batch_bytes_max=own.max_batch_bytes,
            batch_events_max=own.max_batch_events,
        ),
        asks_keys=args.keys,
        tokens=args.tokens,
        operates=args.operate,
        certificate=_certificate(args),
        proxies=tuple((args.behind_proxy or "").replace(",", " ").split()),
        connections_per_address=args.connections_per_address,
        hosts=tuple(args.host),
        load=partial(load, args.config, values=args.values, environ=os.environ),
    )
    with open_connection(settings, "gateway"):
        pass  # the failures that waiting cannot repair are reported at once
    listening = open_socket(own.gateway or LISTEN, "a gateway cannot listen")
    require_safe(listening, spec)
    set_up_logs(settings.log_format)
    logging.getLogger("gapless.gateway.access").setLevel((args.access_log or "critical").upper())
    return serve(listening, spec)


def _certificate(args: Args) -> Certificate | None:
    from gapless.features.gateway.tls import Certificate  # noqa: PLC0415 - as above

    if args.connections_per_address < 1:
        raise UsageError("--connections-per-address: at least 1")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise UsageError("--tls-cert and --tls-key go together")
    return Certificate(args.tls_cert, args.tls_key) if args.tls_cert else None
