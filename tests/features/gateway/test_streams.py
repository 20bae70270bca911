"""Streams cost little: a gateway holds thousands of clients that only listen."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from psycopg import Connection

from gapless.log.topics import Topic
from support.gateways import Client, Open, Serve, Served

STREAMS = 1000
STREAMS_MIB_MAX = 200.0
_PAGE_BYTES = 4096
_AT_ONCE = 500  # more than 2000 that wait for a session are turned away
FILTERS = 30


def rss_mib(gateway: Served) -> float:
    """Return the memory that a gateway takes."""
    pages = Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1]
    return int(pages) * _PAGE_BYTES / (1 << 20)


@contextmanager
def listening(gateway: Client, streams: int, query: str = "") -> Iterator[list[socket.socket]]:
    """Hold so many streams, each of which has had its first words; query: with its number as {}."""
    host, _, port = gateway.url.removeprefix("http://").rpartition(":")
    with ExitStack() as stack:
        socks: list[socket.socket] = []
        for first in range(0, streams, _AT_ONCE):
            for n in range(min(_AT_ONCE, streams - first)):
                sock = socket.create_connection((host, int(port)), timeout=60)
                socks.append(stack.enter_context(sock))
                path = "/v1/topics/orders/stream" + query.format(first + n)
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            for sock in socks[first:]:
                assert b" 200 " in sock.recv(4096)
        yield socks


@pytest.mark.long
def test_a_thousand_streams_fit_200_mib(serve: Serve, orders: Topic) -> None:
    gateway = serve("--connections-per-address", str(2 * STREAMS))
    gateway.publish(0)
    with listening(gateway, STREAMS) as socks:
        assert rss_mib(gateway) < STREAMS_MIB_MAX
        gateway.publish("to all", wait="offset")
        for sock in socks:
            found = b""
            while b'"to all"' not in found:
                found += sock.recv(65536)


def test_however_many_filters_there_are_one_looks(
    open_gateway: Open, orders: Topic, conn: Connection
) -> None:
    """Streams that nothing comes for need no session of their own; each gets what it asked for."""
    gateway = open_gateway(sessions=16)
    with ExitStack() as stack:
        socks = [
            stack.enter_context(listening(gateway, 1, f"?where=$==%22{n}.%22"))[0]
            for n in range(FILTERS)
        ]
        row = conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name like '%/gateway'"
        ).fetchone()
        assert row is not None
        assert row[0] <= 4, "one that looks, one that listens, one or two of the newest stream"
        gateway.publish(*(f"{n}." for n in range(FILTERS)))
        for n, sock in enumerate(socks):
            found = b""
            while f'"{n}."'.encode() not in found:
                found += sock.recv(65536)
            assert found.count(b"data: ") == 1
