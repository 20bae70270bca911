"""Clients that take their time, or all the room: each has a limit, and others are served."""

import re
import socket
import threading
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from psycopg import Connection

from features.gateway.together import connected
from gapless.features.gateway import connection
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.fleet import until
from support.gateways import EVENTS, Client, Open

HEAD = f"POST {EVENTS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
OK = b'{"payload": 1}'
STREAM = "/v1/topics/orders/stream"
_DRIP_S = 0.05


def drip(sock: socket.socket, each: bytes, parts_max: int) -> bytes:
    """Send it again and again, slowly, until the other side has enough; what it said."""
    found = b""
    sock.settimeout(_DRIP_S)
    with suppress(ConnectionError):
        for _ in range(parts_max):
            with suppress(TimeoutError):
                part = sock.recv(65536)
                found += part
                if not part:
                    return found
            sock.sendall(each)
        pytest.fail(f"nobody ended it: {found!r}")
    return found


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
# The bytes that are sent at once, those sent again and again, and the statuses of the answers; "": it is cut off.
SLOW: list[tuple[bytes, bytes, list[bytes]]] = [
    (b"GET /", b"a", [b"408"]),
    (HEALTH, b"a", [b"408"]),
    (HEALTH + b"\r\nGET /", b"a", [b"200", b"408"]),
    (HEALTH + b"\r\nGET /he", b"", [b"200", b"408"]),
    (b"", b"\r\n", []),
    (HEALTH + b"\r\n", b"\r\n", [b"200"]),
    (b"", b"", []),
]


@pytest.mark.long
def test_a_head_that_comes_slowly(gateway: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty lines before it are allowed, and no way to stay; its clock begins anew after an answer."""
    monkeypatch.setattr(connection, "HEAD_S_MAX", 1.0)
    for begun, more, statuses in SLOW:
        with connected(gateway) as sock:
            sock.sendall(begun)
            found = drip(sock, more, 400)
        assert re.findall(rb"HTTP/1.1 (\d+)", found) == statuses, (begun, more)
    assert gateway.get("/healthz").status_code == 200


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("head", "more"),
    [
        (b"GET /", b"a"),
        (b"GET / HTTP/1.1\r\nA: ", b"b"),
        (b"GET / HTTP/1.1\r\n", b"A: b\r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0000"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n", b"A: b\r\n"),
    ],
    ids=["target", "header", "headers", "size", "extension", "trailers"],
)
def test_what_is_no_body_has_an_end(gateway: Client, head: bytes, more: bytes) -> None:
    """llhttp has no bound for it."""
    with connected(gateway) as sock:
        sock.sendall(head)
        found = drip(sock, more * 1000, 400)
    assert found.startswith(b"HTTP/1.1 400") or found == b"", found


def test_a_head_at_once_has_a_bound(gateway: Client) -> None:
    many = b"A: b\r\n" * 30_000
    with connected(gateway) as sock:
        with suppress(ConnectionError):
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")
        found = drip(sock, b"", 400)
    assert b" 200 " not in found


def test_an_upgrade_that_is_offered(gateway: Client) -> None:
    """Java's client offers h2c with each request, with a body, too, and goes on in HTTP/1.1."""
    offer = HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"
    request = offer + b"Content-Length: %d\r\n\r\n" % len(OK) + OK
    last = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with connected(gateway) as sock:
        sock.sendall(request + request + last)
        found = drip(sock, b"", 400)
    assert found.count(b"HTTP/1.1 202") == 2
    assert found.count(b"HTTP/1.1 200") == 1


@pytest.mark.long
def test_a_body_that_nobody_reads(gateway: Client, monkeypatch) -> None:
    """The answer is there at once; whoever sends on, slowly, is cut off."""
    monkeypatch.setattr(connection, "UNREAD_S_MAX", 1.0)
    with connected(gateway) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
        drip(sock, b"x", 400)


@pytest.mark.long
def test_whoever_is_in_time_keeps_the_connection(gateway: Client, monkeypatch) -> None:
    """A limit of a head is none of an idle connection, and none of a stream."""
    monkeypatch.setattr(connection, "HEAD_S_MAX", 0.3)
    monkeypatch.setattr(connection, "UNREAD_S_MAX", 0.3)
    request = HEAD + b"Content-Length: %d\r\n\r\n" % len(OK)
    with connected(gateway) as sock:
        for _ in range(3):
            sock.sendall(request)
            sock.sendall(OK)
            found = b""
            while b"scheduled_ids" not in found:
                found += sock.recv(65536)
            assert found.startswith(b"HTTP/1.1 202")
            time.sleep(0.5)
    with gateway.client.stream("GET", "/v1/topics/orders/stream", timeout=20) as stream:
        lines = stream.iter_lines()
        next(lines)
        time.sleep(0.6)
        publishes = threading.Thread(target=gateway.publish, args=(7,), kwargs={"wait": "offset"})
        publishes.start()
        assert any("payload" in line for line in lines)
        publishes.join()


def test_too_many_connections_of_one_address(open_gateway: Open, orders: Topic) -> None:
    gateway = open_gateway(connections_per_address=5)
    held = [connected(gateway) for _ in range(5)]
    try:
        held[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert held[0].recv(65536).startswith(b"HTTP/1.1 200")
        with connected(gateway) as sixth:
            found = b"?"
            with suppress(ConnectionError):
                sixth.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                found = sixth.recv(100)
            assert found in (b"", b"?"), "it is cut off"
    finally:
        for each in held:
            each.close()
    deadline_s = time.monotonic() + 20
    while True:
        with suppress(httpx.TransportError):
            if gateway.get("/healthz").status_code == 200:
                break
        assert time.monotonic() < deadline_s, "who has gone is not counted"


def test_a_proxy_has_any_number(open_gateway: Open, orders: Topic) -> None:
    gateway = open_gateway(connections_per_address=2, proxies=("127.0.0.1",))
    held = [connected(gateway) for _ in range(6)]
    for each in held:
        each.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert each.recv(65536).startswith(b"HTTP/1.1 200")
        each.close()


def test_clients_that_take_nothing_are_cut_off(
    open_gateway: Open, orders: Topic, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their places are others' then; a connection that only waits keeps its own."""
    monkeypatch.setattr(connection, "SEND_S_MAX", 0.5)
    for _ in range(4):
        publish(conn, "orders", "x" * 1_000_000, key="a")
    sequence(conn)
    gateway = open_gateway(connections_per_address=4)
    with ExitStack() as stack:
        waits = stack.enter_context(connected(gateway))
        assert is_well(waits)
        deaf_ones = [stack.enter_context(socket.socket()) for _ in range(3)]
        ranges = f"{EVENTS}?partition=0", f"{EVENTS}?partition=1"
        paths = ("/openapi.json",), ranges, (f"{STREAM}?from=earliest",)
        for sock, asks in zip(deaf_ones, paths, strict=True):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(waits.getpeername())
            for path in asks * 40:
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        others = [stack.enter_context(connected(gateway)) for _ in range(3)]

        def have_places() -> bool:
            for n, each in enumerate(others):
                if not is_well(each):
                    others[n] = stack.enter_context(connected(gateway))
                    return False
            return True

        until(have_places, "they have places")
        assert is_well(waits)


def is_well(sock: socket.socket) -> bool:
    """Tell whether it is answered, not cut off."""
    with suppress(ConnectionError):
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = b""
        while part := sock.recv(65536):
            found += part
            if found.endswith(b"\r\n\r\nok\n"):
                return True
    return False


def test_too_many_requests_at_a_time(gateway: Client) -> None:
    """Those that are sent before the first is answered are kept: some, not thousands."""
    found = gateway.raw(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
    assert b" 200 " not in found
    assert gateway.get("/readyz").status_code == 200


def test_headers_that_try_something(gateway: Client) -> None:
    """What comes in a request comes back in no header, and leads nobody elsewhere."""
    evil = "evil.example.com"
    for path in (
        "/v1/topics/", "//evil.example.com/..", "/v1/topics/a%0d%0aSet-Cookie:%20x=1/events",
        "/page/%2e%2e/%2e%2e/etc/passwd", "/page/..%5c..%5cx", "/page//etc/passwd",
    ):  # fmt: skip
        found = gateway.raw(
            f"GET {path} HTTP/1.1\r\nHost: {evil}\r\nX-Forwarded-Host: {evil}\r\n"
            f"X-Forwarded-Proto: https\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n".encode()
        )
        head = found.partition(b"\r\n\r\n")[0].lower()
        assert head.startswith(b"http/1.1 4"), (path, found)
        assert b"set-cookie" not in head
        assert b"location" not in head
    for bad in (b"X: a\nY: b\r\n", b"X : a\r\n", b"X\x00: a\r\n", b" X: a\r\n", b": a\r\n"):
        found = gateway.raw(HEAD + bad + b"Content-Length: 14\r\n\r\n" + OK)
        assert b"set-cookie" not in found.lower()
        assert found == b"" or found[:10] in (b"HTTP/1.1 4", b"HTTP/1.1 2"), (bad, found)


@pytest.mark.long
def test_whose_forwarded_headers_count(
    open_gateway: Open, orders: Topic, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    """A client's own do not; those of the proxy that was named do."""
    conn.execute("select gapless.create_group('billing', 'orders')")
    caplog.set_level("INFO", "gapless.gateway")
    headers = {"X-Forwarded-For": "198.51.100.7"}
    for proxies, address in (
        ((), "127.0.0.1"),
        (("10.0.0.1",), "127.0.0.1"),
        (("127.0.0.0/8",), "198.51.100.7"),
    ):
        gateway = open_gateway(operates=True, proxies=proxies)
        done = gateway.post("/v1/groups/billing/pause", json={}, headers=headers)
        assert done.status_code == 200
        assert f" at {address}: " in caplog.messages[-1], proxies
