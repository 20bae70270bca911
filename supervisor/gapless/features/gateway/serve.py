"""Run a gateway at a socket until SIGTERM or Ctrl-C; then let requests finish."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from ssl import SSLContext
from types import FrameType
from typing import TYPE_CHECKING, cast

import uvicorn

from gapless.db.connect import connect_shared
from gapless.errors import UsageError
from gapless.features.gateway.access import Access
from gapless.features.gateway.app import App
from gapless.features.gateway.connection import Connection
from gapless.features.gateway.gateway import DEFAULTS, Gateway, Limits, Load
from gapless.features.gateway.handshake import Secured
from gapless.features.gateway.hosts import names_of
from gapless.features.gateway.issuer import read_issuer
from gapless.features.gateway.listener import ChannelListener
from gapless.features.gateway.room import Room, networks
from gapless.features.gateway.sessions import Sessions
from gapless.features.gateway.tls import Certificate
from gapless.features.gateway.traffic import Traffic
from gapless.features.metrics.looks import Looks

if TYPE_CHECKING:
    from gapless.features.gateway.tokens import Tokens

log = logging.getLogger("gapless.gateway")

CONNECTIONS_PER_ADDRESS = 1_000
KEEP_ALIVE_S = 30
_TICKS_A_SECOND = 10  # of uvicorn's loop
_STOP = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSpec:
    """The settings of a gateway; sessions: with the database, at most, beside one for metrics.

    asks_keys: every request needs a key. tokens: the file of an issuer; every request needs a token
    of that issuer, or a key if asks_keys is set. operates: it has the routes for operators.
    proxies: addresses and networks of which the forwarded headers count. hosts: names of the
    gateway beside those of its machine; without keys and tokens it answers to no other name. load:
    loads the configuration, from which a new topic has what a request leaves out.
    """

    dsn: str
    sessions: int
    connect_timeout_s: int
    drain_timeout_s: float
    limits: Limits
    asks_keys: bool = False
    tokens: str | None = None
    operates: bool = False
    certificate: Certificate | None = None
    proxies: tuple[str, ...] = ()
    connections_per_address: int = CONNECTIONS_PER_ADDRESS
    hosts: tuple[str, ...] = ()
    load: Load = DEFAULTS


def serve(listening: socket.socket, spec: ServeSpec) -> int:
    """Answer until told to end; return the exit code, 0.

    Requests that run then have spec.drain_timeout_s seconds to finish; those that only wait, or
    stream, end at once.
    """
    sessions = Sessions(spec.dsn, sessions=spec.sessions, connect_timeout_s=spec.connect_timeout_s)
    try:
        asyncio.run(_serve(listening, sessions, spec))
    finally:
        sessions.close()
    return 0


def require_safe(listening: socket.socket, spec: ServeSpec) -> None:
    """Raise UsageError for a socket that other machines reach without keys, or without TLS."""
    host = listening.getsockname()[0]
    names_of(spec.hosts, host)
    if ip_address(host.partition("%")[0]).is_loopback:
        return
    if not (spec.asks_keys or spec.tokens):
        why = (
            f"a gateway that asks for no keys listens on this machine only, not at {host}: say "
            "--keys or --tokens, or --listen 127.0.0.1:PORT and put what knows its callers in "
            "front of it"
        )
    elif spec.certificate is None and not spec.proxies:
        why = (
            f"keys would cross the network as they are, to {host}: say --tls-cert and --tls-key, "
            "or --behind-proxy ADDRESSES of the proxy in front of it"
        )
    else:
        return
    listening.close()
    raise UsageError(why)


async def _serve(listening: socket.socket, sessions: Sessions, spec: ServeSpec) -> None:
    host, port = listening.getsockname()[:2]
    server = make_server(sessions, spec, host)
    scheme = "http" if spec.certificate is None else "https"
    log.info("gateway: %s://%s:%s", scheme, f"[{host}]" if ":" in host else host, port)
    await server.serve(sockets=[listening])
    log.info("gateway: ended")


def make_server(sessions: Sessions, spec: ServeSpec, address: str = "127.0.0.1") -> GatewayServer:
    """Return a server with its gateway, for the running loop; address: the one it listens at."""
    is_anybodys = spec.asks_keys or spec.tokens
    names = None if is_anybodys and not spec.hosts else names_of(spec.hosts, address)
    looks = Looks(
        partial(connect_shared, spec.dsn, role="gateway", connect_timeout_s=spec.connect_timeout_s)
    )
    access = Access(
        sessions,
        asks_keys=spec.asks_keys,
        operates=spec.operates,
        tokens=_tokens(spec.tokens) if spec.tokens else None,
    )
    traffic = Traffic(speaks_tls=spec.certificate is not None)
    gateway = Gateway(sessions, access, looks, spec.limits, traffic, spec.load)
    room = Room(spec.connections_per_address, networks(spec.proxies))
    tls = spec.certificate.open() if spec.certificate else None
    protocol = partial(Secured, tls) if tls else Connection
    config = uvicorn.Config(
        App(gateway, room, names),
        http=partial(protocol, room, traffic),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(spec.proxies),
        forwarded_allow_ips=list(spec.proxies),
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(spec.drain_timeout_s)),
    )
    make_bell = partial(ChannelListener, spec.dsn, spec.connect_timeout_s, gateway.ring)
    return GatewayServer(config, gateway, make_bell, spec.certificate, tls)


def _tokens(path: str) -> Tokens:
    try:
        from gapless.features.gateway.tokens import Tokens  # noqa: PLC0415 - an extra of its own
    except ImportError as error:
        raise UsageError('tokens need joserfc and httpx: pip install "gapless[jwt]"') from error
    return Tokens(read_issuer(path))


class GatewayServer(uvicorn.Server):
    """Lets the gateway drain when it is told to end, and ends with 0."""

    def __init__(
        self,
        config: uvicorn.Config,
        gateway: Gateway,
        make_bell: Callable[[], ChannelListener],
        certificate: Certificate | None,
        tls: SSLContext | None,
    ) -> None:
        super().__init__(config)
        self._certificate = certificate
        self._tls = tls  # not given to uvicorn: Secured makes the secured connections
        self._gateway = gateway
        self._make_bell = make_bell
        self._loop = asyncio.get_running_loop()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer until told to end."""
        self._gateway.bell = self._make_bell()
        stand_in = asyncio.create_task(self._gateway.stand_in.run())
        try:
            await super().serve(sockets)
        finally:
            stand_in.cancel()
            await asyncio.to_thread(self._gateway.bell.close)
            self._gateway.looks.close()

    async def on_tick(self, counter: int) -> bool:
        """Cut off stuck clients every second; tell whether to end."""
        if counter % _TICKS_A_SECOND == 0:
            for each in list(self.server_state.connections):
                cast("Connection", each).end_if_stuck()
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the stop signals: uvicorn would raise them again, and change the exit code."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread gets signals
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _STOP}
        if self._certificate is not None:
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._renew)
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def _renew(self, _sig: int, _frame: FrameType | None) -> None:
        if self._certificate is not None and self._tls is not None:
            self._loop.call_soon_threadsafe(self._certificate.renew, self._tls)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drain; a second signal ends the gateway without waiting."""
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._gateway.drain)
