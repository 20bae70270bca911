"""Requests that mean harm: each gets an answer, or is cut off, and the gateway serves on."""

import re
import socket
import time
from contextlib import ExitStack
from select import select

import pytest
from psycopg import Connection

from features.gateway.together import connected
from gapless.features.gateway import body
from gapless.features.gateway.app import PAGE, WAYS
from gapless.log.topics import Topic
from gapless.ops import create_key
from support.fleet import until
from support.gateways import EVENTS, Client, Open, problem

HEAD = f"POST {EVENTS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
OK = b'{"payload": 1}'
JSON = {"Content-Type": "application/json"}


@pytest.mark.long
def test_heads_that_are_none(gateway: Client) -> None:
    many = b"".join(b"X-%d: y\r\n" % n for n in range(100_000))
    cases: list[tuple[bytes, ...]] = [
        (HEAD, many, b"\r\n"),
        (b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",),
        (HEAD + b"X: " + b"a" * 200_000 + b"\r\n\r\n",),
        (HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",),
        (HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n1234",),
        (HEAD + b"Content-Length: -1\r\n\r\n",),
        (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",),
        (HEAD + b"X: a\x00b\r\n\r\n",),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 10,),
        (b"GET /nothing HTTP/9.9\r\n\r\n",),
        (b"\r\n\r\n\r\n\r\n",),
    ]
    for parts in cases:
        found = gateway.raw(*parts)
        assert found == b"" or found.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")), parts[-1][:60]
        assert not found.startswith(b"HTTP/1.1 500"), found
        assert gateway.get("/healthz").status_code == 200
    assert gateway.publish(1)["events"] == 1


def test_names_that_try_something(gateway: Client, conn: Connection) -> None:
    for name in (
        "..", "../../healthz", "%2e%2e%2f", "a%00b", "a%0d%0aX-Bad:%201", "%ff%fe", "'; drop schema gapless --",
        "a" * 5_000, "\u202eorders", "orders%20", "ORDERS", "orders;x=1", "%ed%a0%80",
    ):  # fmt: skip
        done = gateway.client.request(
            "POST",
            f"{gateway.url}/v1/topics/{name}/events",
            content=OK,
            headers={"Content-Type": "application/json"},
        )
        assert done.status_code in (400, 404, 405), (name, done.text)
        problem(done, done.status_code)
        assert "x-bad" not in done.headers
    row = conn.execute("select count(*) from gapless.outbox_message_t").fetchone()
    assert row == (0,)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("coded", "status"),
    [
        (b"Transfer-Encoding: chunked", 202),
        (b"Transfer-Encoding: \tChunked ", 202),
        (b"Transfer-Encoding: gzip, chunked", 501),
        (b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked", 501),
        (b"Transfer-Encoding: x, chunked", 501),
        (b"Transfer-Encoding: identity, chunked", 501),
        (b"Transfer-Encoding: chunked, chunked", 400),
        (b"Transfer-Encoding: gzip", 400),
        (b"Transfer-Encoding: chunked, gzip", 400),
        (b"Transfer-Encoding: xchunked", 400),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 14", 400),
    ],
)
def test_bodies_that_are_coded(gateway: Client, coded: bytes, status: int) -> None:
    """A coding that is not understood is refused, not taken for its source."""
    body = b"e\r\n" + OK + b"\r\n0\r\n\r\n"
    found = gateway.raw(HEAD + coded + b"\r\n\r\n" + body)
    assert found.startswith(b"HTTP/1.1 %d " % status), found
    old = HEAD.replace(b"1.1", b"1.0") + coded + b"\r\n\r\n" + body
    assert gateway.raw(old).startswith(b"HTTP/1.1 400 ")


def test_what_follows_a_request_and_is_none(gateway: Client, conn: Connection) -> None:
    """Nobody is told that it was refused when what came behind it was."""
    body = b"Content-Length: %d\r\n\r\n" % len(OK) + OK
    found = gateway.raw(HEAD + body + b"\x00 nothing\r\n\r\n")
    assert found == b"" or found.startswith(b"HTTP/1.1 202"), found


def test_a_slash_in_a_name_is_none_of_a_path(open_gateway: Open, conn: Connection) -> None:
    """Whatever is in front of the gateway, and looks at paths, sees the same names."""
    gateway = open_gateway(operates=True)
    for way in (*WAYS, *PAGE):
        parts = re.sub(r"{[^}]*}", "orders", way.path).split("/")
        for n in range(2, len(parts)):
            for slash in ("%2F", "%2f"):
                path = "/".join(parts[:n]) + slash + "/".join(parts[n:])
                done = gateway.client.request(way.method, path, timeout=5)
                assert problem(done, 404)["detail"].startswith("there is no /"), path


def test_a_query_has_what_is_described(open_gateway: Open, orders: Topic) -> None:
    """A parameter that is spelled wrongly, or comes twice, is not left out in silence."""
    gateway = open_gateway(operates=True)
    for way in WAYS:
        if not way.path.startswith("/v1/"):
            continue
        known = way.query.shapes
        for query, word in [("form=earliest", "form"), *((f"{n}=1&{n}=2", n) for n in known)]:
            url = re.sub(r"{[^}]*}", "orders", way.path) + "?" + query
            done = gateway.client.request(way.method, url, json={}, timeout=5)
            assert word in problem(done, 400)["detail"], url
    assert gateway.get("/healthz?probe=1").status_code == 200


def test_a_body_that_does_not_come(gateway: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_S_MAX", 0.3)
    found = gateway.raw(HEAD + b"Content-Length: 100\r\n\r\n", b'{"pay')
    assert found.startswith(b"HTTP/1.1 408")


@pytest.mark.long
def test_clients_that_hang_about_take_nobody_s_place(gateway: Client) -> None:
    """More half-open requests than there are sessions, and waits that nobody waits for."""
    with ExitStack() as stack:
        for n in range(60):
            sock = stack.enter_context(connected(gateway))
            sock.sendall(HEAD if n % 2 else HEAD + b"Content-Length: 50\r\n\r\n{")
        began_s = time.monotonic()
        for n in range(10):
            assert gateway.publish(n)["events"] == 1
        assert time.monotonic() - began_s < 30
    assert gateway.get("/readyz").status_code == 200


def unfinished(gateway: Client, auth: str, sent_bytes: int) -> socket.socket:
    """A request whose body is never finished."""
    sock = connected(gateway)
    sock.sendall(HEAD + f"Authorization: Bearer {auth}\r\n".encode())
    sock.sendall(b"Content-Length: %d\r\n\r\n" % (sent_bytes + 1) + b" " * sent_bytes)
    return sock


def test_bodies_that_are_not_finished_have_a_budget(
    open_gateway: Open, orders: Topic, conn: Connection
) -> None:
    """Each key has two large ones at a time, all have four; small ones are always taken."""
    gateway = open_gateway(batch_bytes_max=300_000, asks_keys=True)
    large = b'{"payload": "' + b"x" * 290_000 + b'"}'
    with ExitStack() as stack:
        for number, refused in (("0", [b"429"]), ("1", [b"429"]), ("2", [b"503", b"503"])):
            key = create_key(conn, number, ["publish:orders"]).key
            socks = [stack.enter_context(unfinished(gateway, key, 299_000)) for _ in range(3)]
            heads: list[bytes] = []
            while len(heads) < len(refused):
                answered, _, _ = select(socks, [], [], 30)
                assert answered, "no answer"
                heads += [each.recv(65536) for each in answered]
                socks = [each for each in socks if each not in answered]
            assert [head[9:12] for head in heads] == refused
            assert all(b"\r\nretry-after: 1\r\n" in head for head in heads)
            headers = {**JSON, "Authorization": f"Bearer {key}"}
            assert gateway.post(EVENTS, content=OK, headers=headers).status_code == 202
    until(
        lambda: gateway.post(EVENTS, content=large, headers=headers).status_code == 202,
        "they are gone",
    )
