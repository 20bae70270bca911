"""The HTTP of an exporter: a page each, nobody waits for a place, and a socket that is refused in words."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Event, Thread, current_thread

import pytest

from gapless.errors import UsageError
from gapless.features.metrics import serve as module
from gapless.features.metrics.serve import HttpServer, Replies, Reply, open_socket

WAIT_S = 30  # for an answer that comes at once


@contextmanager
def _serving(pages: Replies) -> Iterator[tuple[str, int]]:
    """Answer at a free port; its address."""
    with closing(open_socket("127.0.0.1:0")) as listening, HttpServer(listening, pages) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield listening.getsockname()
        finally:
            server.shutdown()
            thread.join()


def _ask(
    address: tuple[str, int], path: str, method: str = "GET", **headers: str
) -> tuple[HTTPResponse, bytes]:
    with closing(HTTPConnection(*address, timeout=WAIT_S)) as asking:
        asking.request(method, path, headers=headers)
        answer = asking.getresponse()
        return answer, answer.read()


def _page(accept: str) -> Reply:
    text = f"accepts {accept or 'all'}, daemon: {current_thread().daemon}"
    return Reply(201, text.encode(), "text/odd")


def test_a_page_is_made_for_what_the_reader_takes() -> None:
    with _serving({"/a": _page}) as address:
        answer, body = _ask(address, "/a?b=/c", Accept="x")
        assert (answer.status, body) == (201, b"accepts x, daemon: True")
        assert answer.getheader("Content-Type") == "text/odd"
        assert answer.getheader("Content-Length") == str(len(body))
        assert answer.getheader("Server") == "gapless ", "and no version of Python"
        assert _ask(address, "/a")[1].startswith(b"accepts all")


def test_who_asks_for_the_head_is_given_no_body() -> None:
    with _serving({"/a": _page}) as address:
        asking = socket.create_connection(address, WAIT_S)
        with closing(asking):
            asking.sendall(b"HEAD /a HTTP/1.0\r\n\r\n")
            said = asking.makefile("rb").read()
    assert said.startswith(b"HTTP/1.0 201 ")
    assert said.endswith(b"\r\n\r\n")


def test_who_finds_no_place_is_turned_away_until_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)
    came, go = Event(), Event()

    def slow(_accept: str) -> Reply:
        came.set()
        assert go.wait(WAIT_S)
        return Reply(200, b"", "text/plain")

    with _serving({"/slow": slow, "/a": _page}) as address:
        first = Thread(target=_ask, args=(address, "/slow"))
        first.start()
        assert came.wait(WAIT_S)
        with pytest.raises(OSError):  # noqa: PT011 - reset, or closed without an answer
            _ask(address, "/a")
        go.set()
        first.join(WAIT_S)
        for _ in range(3):
            assert _until_answered(address) == 201


def _until_answered(address: tuple[str, int]) -> int:
    """Ask until the place is free: that is a moment after the answer before."""
    while True:
        try:
            return _ask(address, "/a")[0].status
        except OSError:
            continue


def test_nothing_is_logged_and_a_reader_that_goes_away_is_left_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fail(_accept: str) -> Reply:
        raise ConnectionResetError

    with _serving({"/a": _page, "/fail": fail}) as address:
        with pytest.raises(OSError):  # noqa: PT011 - closed without an answer
            _ask(address, "/fail")
        _ask(address, "/a")
    assert capfd.readouterr() == ("", "")


def test_a_server_has_one_socket() -> None:
    with closing(open_socket("127.0.0.1:0")) as listening:
        before = len(list(Path("/proc/self/fd").iterdir()))
        server = HttpServer(listening, {})
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        assert server.socket is listening


@pytest.mark.parametrize(
    ("error", "why"), [(OSError(5, "no such host"), "no such host"), (OSError("odd"), "odd")]
)
def test_a_host_that_is_nowhere_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, error: OSError, why: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(UsageError, match=rf"^metrics cannot be read at nowhere:1: {why}: choose "):
        open_socket("nowhere:1")


def test_of_several_addresses_it_is_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0))
        for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with closing(open_socket("here:0")) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
