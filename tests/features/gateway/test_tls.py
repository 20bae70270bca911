"""TLS by flags, and who may be in front: nothing secret crosses a network as it is."""

import signal
import socket
import ssl
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
import trustme
from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.gateway import connection
from gapless.features.gateway.room import Room, networks
from gapless.features.gateway.serve import ServeSpec, require_safe
from gapless.features.gateway.tls import Certificate
from gapless.features.metrics.serve import open_socket
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.fleet import until
from support.gateways import EVENTS, Inside, Limits, Open, Serve


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def write(authority: trustme.CA, folder: Path, name: str = "localhost") -> Certificate:
    """A certificate in two files, the same ones each time."""
    made = authority.issue_cert(name, "127.0.0.1")
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    return Certificate(str(cert), str(key))


def client(authority: trustme.CA, newest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if newest is not None:
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = newest
    return context


def number(authority: trustme.CA, port: int) -> int:
    """The serial number of the certificate that is shown now."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        with client(authority).wrap_socket(sock, server_hostname="127.0.0.1") as secure:
            return int(secure.getpeercert()["serialNumber"], 16)  # type: ignore[index, arg-type]


def is_served(authority: trustme.CA, port: int) -> bool:
    with suppress(ssl.SSLError, ConnectionError):
        return number(authority, port) > 0
    return False


@pytest.mark.long
def test_it_speaks_tls(
    open_gateway: Open, orders: Topic, authority: trustme.CA, tmp_path: Path
) -> None:
    gateway = open_gateway(certificate=write(authority, tmp_path))
    port = int(gateway.url.rpartition(":")[2])
    url = f"https://127.0.0.1:{port}"
    done = httpx.post(f"{url}{EVENTS}", json={"payload": 1}, verify=client(authority), timeout=60)
    assert done.status_code == 202
    for answer in (done, httpx.get(f"{url}/nothing", verify=client(authority), timeout=60)):
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
    with socket.create_connection(("127.0.0.1", port)) as sock:
        with client(authority).wrap_socket(sock, server_hostname="127.0.0.1") as secure:
            assert secure.version() in ("TLSv1.2", "TLSv1.3")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old = client(authority, ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", port)) as sock,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        old.wrap_socket(sock, server_hostname="127.0.0.1")
    assert gateway.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")[:4] != b"HTTP", (
        "no clear text"
    )


@pytest.mark.long
def test_another_certificate_without_a_restart(
    serve: Serve, orders: Topic, authority: trustme.CA, tmp_path: Path
) -> None:
    files = write(authority, tmp_path)
    gateway = serve("--tls-cert", files.cert, "--tls-key", files.key)
    port = int(gateway.url.rpartition(":")[2])
    before = number(authority, port)
    Path(files.key).write_text("nothing")
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: "stays as it is" in gateway.log(), "a bad file is said", within=gateway.log)
    assert number(authority, port) == before
    write(authority, tmp_path)
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: number(authority, port) != before, "the new one is shown", within=gateway.log)
    assert gateway.process.poll() is None


def test_handshakes_that_do_not_end(
    open_gateway: Open,
    orders: Topic,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are counted as connections, and have as long as a head; then their places are others'."""
    monkeypatch.setattr(connection, "HEAD_S_MAX", 1.0)
    gateway = open_gateway(certificate=write(authority, tmp_path), connections_per_address=3)
    port = int(gateway.url.rpartition(":")[2])
    with ExitStack() as stack:
        begun = b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in begun]
        for sock, said in zip(held, begun, strict=True):
            sock.sendall(said)
        assert not is_served(authority, port), "one too many"
        for sock in held:
            sock.settimeout(20)
            with suppress(ConnectionError):
                assert sock.recv(100) == b""
        for _ in range(4):
            until(lambda: is_served(authority, port), "who has gone is not counted")


def test_files_that_are_none(authority: trustme.CA, tmp_path: Path) -> None:
    files = write(authority, tmp_path)
    other = authority.issue_cert("other")
    bad = tmp_path / "bad.pem"
    for content in (b"", b"x", other.private_key_pem.bytes()):
        bad.write_bytes(content)
        with pytest.raises(UsageError, match="--tls-cert") as refused:
            Certificate(files.cert, str(bad)).open()
        assert "\n" not in str(refused.value)
    with pytest.raises(UsageError, match="No such file"):
        Certificate(str(tmp_path / "none"), files.key).open()


def test_who_may_be_reached_from_elsewhere(dsn: str) -> None:
    """Keys or tokens, and TLS or a proxy; at this machine's own addresses neither."""
    files = Certificate("cert", "key")
    cases = [
        ({}, "no keys"),
        ({"certificate": files}, "no keys"),
        ({"proxies": ("10.0.0.1",)}, "no keys"),
        ({"asks_keys": True}, "cross the network"),
        ({"tokens": "x"}, "cross the network"),
        ({"asks_keys": True, "certificate": files}, ""),
        ({"tokens": "x", "proxies": ("10.0.0.1",)}, ""),
    ]
    for more, complaint in cases:
        limits = Limits(event_bytes_max=1, batch_bytes_max=1, batch_events_max=1)
        spec = ServeSpec(
            dsn=dsn,
            sessions=1,
            connect_timeout_s=1,
            drain_timeout_s=1,
            limits=limits,
            **more,  # type: ignore[arg-type]
        )
        for address in ("0.0.0.0:0", "127.0.0.1:0"):
            listening = open_socket(address)
            if complaint and address.startswith("0"):
                with pytest.raises(UsageError, match=complaint):
                    require_safe(listening, spec)
                assert listening.fileno() == -1
            else:
                require_safe(listening, spec)
                listening.close()


def test_connections_are_counted_by_who_has_them() -> None:
    room = Room(2, networks(["10.0.0.0/8", "::1"]))
    first, second = room.enter("192.0.2.1"), room.enter("192.0.2.1")
    assert first is not None
    assert second is not None
    assert room.enter("192.0.2.1") is None
    assert room.enter("::ffff:192.0.2.1") is None, "the same, as a socket of IPv6 has it"
    assert room.enter("192.0.2.2") is not None
    for _ in range(5):
        assert room.enter("10.1.2.3") == ""
        assert room.enter("::1") == ""
    assert [room.enter(f"2001:db8::{n}") is None for n in range(4)] == [False, False, True, True]
    assert room.enter("2001:db8:0:1::1") is not None, "another customer's"
    room.leave(first)
    assert room.enter("192.0.2.1") is not None
    for wrong in ("x", "10.0.0.1/8", ""):
        with pytest.raises(UsageError, match="--behind-proxy"):
            networks([wrong])


def test_a_client_that_takes_nothing_is_cut_off(
    dsn: str,
    orders: Topic,
    conn: Connection,
    authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest of the answer is below TLS, for the answer is not large."""
    monkeypatch.setattr(connection, "SEND_S_MAX", 0.3)
    publish(conn, "orders", "x" * 50_000, key="a")
    sequence(conn)
    limits = Limits(event_bytes_max=1 << 20, batch_bytes_max=1 << 20, batch_events_max=10)
    gateway = Inside(
        dsn, limits, 2, certificate=write(authority, tmp_path), connections_per_address=1
    )
    address = gateway.listening.getsockname()
    gateway.listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    asks = b"GET /v1/topics/orders/stream?from=earliest HTTP/1.1\r\nHost: localhost\r\n\r\n"
    try:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(address)
            with client(authority).wrap_socket(deaf, server_hostname="127.0.0.1") as secure:
                secure.sendall(asks)

                def has_left() -> bool:
                    with suppress(httpx.TransportError):
                        url = f"https://127.0.0.1:{address[1]}/healthz"
                        return httpx.get(url, verify=client(authority)).status_code == 200
                    return False

                until(has_left, "its place is another's")
    finally:
        gateway.end()
