"""Connections to an endpoint: kept when they are good for another request, and only then."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gapless.features.webhooks.kept import (
    ANSWER_BYTES_MAX,
    HEAD_BYTES_MAX,
    BrokenAnswerError,
    EndpointAnswer,
    EndpointConnection,
    KeptConnections,
)

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
LOCAL = ["127.0.0.1"]
NOWHERE = ["255.255.255.255"]
Ask = Callable[..., Awaitable[EndpointAnswer]]


class Endpoint:
    """Answers the n-th request with answers[n], the last one again and again.

    reads: whether a request's body is read first. connections: how many were made. hangs_up: after
    each answer.
    """

    def __init__(self, *answers: bytes, reads: bool = True, hangs_up: bool = False) -> None:
        self.answers = list(answers)
        self.reads = reads
        self.hangs_up = hangs_up
        self.connections = 0
        self.heads: list[bytes] = []
        self.over = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while not self.over.is_set():
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                self.heads.append(head)
                size = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
                if self.reads:
                    await reader.readexactly(size)
                writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])
                if self.hangs_up:
                    return
                if not self.reads:
                    await self.over.wait()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def _asking(
    endpoint: Callable[[], Endpoint], work: Callable[[Ask, Endpoint], Awaitable[None]]
) -> None:
    """Run `work` with what asks the endpoint."""

    async def run() -> None:
        made = endpoint()
        server = await asyncio.start_server(made.serve, "0.0.0.0")
        kept = KeptConnections("shop.example", server.sockets[0].getsockname()[1], None, 4)

        async def ask(
            body: bytes = b"{}", addresses: list[str] = LOCAL, read_on_s: float = 0.2
        ) -> EndpointAnswer:
            address, connection = await kept.take(addresses)
            headers = {"host": "shop.example", "content-length": str(len(body))}
            try:
                return await connection.ask(b"/hooks", headers, body, read_on_s=read_on_s)
            finally:
                kept.give_back(address, connection)

        async with asyncio.timeout(60):
            await work(ask, made)
        made.over.set()
        kept.close()
        server.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK,
    ],
)
def test_one_connection_serves_request_after_request(answer: bytes) -> None:
    async def work(ask: Ask, endpoint: Endpoint) -> None:
        answers = [await ask() for _ in range(3)]
        assert {each.status for each in answers} <= {200, 204}
        assert endpoint.connections == 1
        assert endpoint.heads[0].startswith(b"post /hooks http/1.1\r\nhost: shop.example\r\n")

    _asking(lambda: Endpoint(answer), work)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * (ANSWER_BYTES_MAX + 1),
        b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 500 Of whom?\r\n\r\n",
    ],
)
def test_one_that_is_not_good_for_another_is_closed(answer: bytes) -> None:
    async def work(ask: Ask, endpoint: Endpoint) -> None:
        assert [(await ask()).status for _ in range(2)] == [200 if b"200" in answer else 204] * 2
        assert endpoint.connections == 2

    _asking(lambda: Endpoint(answer), work)


def test_who_answers_before_it_has_read_all_is_asked_on_another() -> None:
    async def work(ask: Ask, endpoint: Endpoint) -> None:
        body = b"x" * (32 << 20)  # more than sockets hold
        answers = [await ask(body) for _ in range(2)]
        assert [each.status for each in answers] == [413, 413]
        assert endpoint.connections == 2

    _asking(
        lambda: Endpoint(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n", reads=False), work
    )


def test_who_hung_up_in_between_is_connected_to_again() -> None:
    async def work(ask: Ask, endpoint: Endpoint) -> None:
        for _ in range(3):
            assert (await ask()).status == 204
            await asyncio.sleep(0.05)
        assert endpoint.connections == 3

    _asking(lambda: Endpoint(OK, hangs_up=True), work)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 20", b"SSH-2.0-OpenSSH_9.9\r\n\r\n"])
def test_what_is_no_answer_is_said_to_be_none(answer: bytes) -> None:
    async def work(ask: Ask, _: Endpoint) -> None:
        with pytest.raises(BrokenAnswerError):
            await ask()

    _asking(lambda: Endpoint(answer, hangs_up=True), work)


def test_an_address_that_is_not_judged_any_more_is_not_used() -> None:
    """What a name said before is over, also for a connection that is open."""

    async def work(ask: Ask, endpoint: Endpoint) -> None:
        await ask()
        with pytest.raises(OSError, match="Errno"):
            await ask(addresses=NOWHERE)
        await ask()
        assert endpoint.connections == 2, "the one of before was closed"

    _asking(lambda: Endpoint(OK), work)


def test_another_address_of_the_name_is_tried_when_one_cannot_be_connected_to() -> None:
    async def work(ask: Ask, _: Endpoint) -> None:
        assert (await ask(addresses=[*NOWHERE, *LOCAL])).status == 204
        with pytest.raises(OSError, match="Errno"):
            await ask(addresses=NOWHERE)

    _asking(lambda: Endpoint(OK), work)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_what_is_said_badly_is_taken_all_the_same(answer: bytes) -> None:
    async def work(ask: Ask, _: Endpoint) -> None:
        assert (await ask()).status == 200

    _asking(lambda: Endpoint(answer), work)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"x" * (HEAD_BYTES_MAX + 1),
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * (HEAD_BYTES_MAX // 20),
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ],
)
def test_who_never_comes_to_an_answer_has_none(answer: bytes) -> None:
    async def work(ask: Ask, _: Endpoint) -> None:
        with pytest.raises(BrokenAnswerError):
            await ask()

    _asking(lambda: Endpoint(answer), work)


@pytest.mark.parametrize("said", ["a\r\nhost: other.example", "a\nb", "a\0", "ä", "\r", "\x7f"])
def test_a_header_is_one_line(said: str) -> None:
    async def work(_: Ask, endpoint: Endpoint) -> None:
        connection = EndpointConnection()
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(endpoint.serve, "127.0.0.1")
        async with server:
            port = server.sockets[0].getsockname()[1]
            await loop.create_connection(lambda: connection, "127.0.0.1", port)
            with pytest.raises(ValueError, match="printable characters"):
                await connection.ask(b"/", {"webhook-id": said}, b"", read_on_s=0.2)
            connection.close()
        assert endpoint.heads == []

    _asking(lambda: Endpoint(OK), work)


def test_who_answers_without_end_is_not_read_to_it() -> None:
    async def work(ask: Ask, _: Endpoint) -> None:
        assert (await ask(read_on_s=3600)).status == 200

    size = HEAD_BYTES_MAX + ANSWER_BYTES_MAX + 1
    endless = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * size
    _asking(lambda: Endpoint(endless, reads=False), work)
