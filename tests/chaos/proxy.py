"""A TCP proxy in front of the server's socket, in a process of its own: what a network does.

One line for each client machine. A line is in one mode at a time:

  pass     forward
  freeze   forward nothing, accept nobody; what was sent arrives when the line passes again
  slow     trickle: small pieces, each late
  cut      the machine is gone: nothing arrives and no FIN tells; later its connections are reset
  deaf     half open: the server gets everything, the client no answer; later reset
  refuse   connections are reset, and so are new ones

`eat` is apart from the modes: the answer to each of the next n COMMITs is swallowed, and the client
reset, so that it cannot know whether it committed. Controlled by JSON lines on standard input, each
answered by one on standard output: {"line": 0, "mode": "cut"} · {"line": 0, "eat": 1} ·
{"line": 0, "reset": true} (connections now; new ones are welcome) · {"line": 0, "upstream": path}
(another server from now on).

Looked for and not taken: toxic-proxy (PyPI) only delays; Toxiproxy is a program in Go that has
neither half-open connections nor an idea of what a COMMIT is.
"""

import asyncio
import json
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

Mode = Literal["pass", "freeze", "slow", "cut", "deaf", "refuse"]

PIECE_BYTES = 65536
TRICKLE_BYTES = 512
TRICKLE_S = 0.005
ANSWER_S_MAX = 1.0  # so long may the server take for a COMMIT whose answer is to be swallowed
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of no seconds: close() sends RST


@dataclass(eq=False)
class Connection:
    """One client's connection and ours to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    broken: bool = False  # bytes were swallowed: it can only be reset
    eating: asyncio.Event | None = None

    def reset(self) -> None:
        with suppress(OSError):
            self.client.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET
            )
        self.client.transport.abort()
        self.server.transport.abort()


@dataclass
class Line:
    """All connections of one client machine, and the mode they are in."""

    upstream: str
    mode: Mode = "pass"
    eat: int = 0
    eaten: int = 0
    connections: set[Connection] = field(default_factory=set)
    waiting: list[asyncio.StreamWriter] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def set_mode(self, mode: Mode) -> None:
        former, self.mode = self.mode, mode
        if mode == "refuse" or former == "cut":
            self.reset()
        elif former == "deaf":
            for each in [each for each in self.connections if each.broken]:
                each.reset()
        self.changed.set()
        self.changed = asyncio.Event()

    def reset(self) -> None:
        for each in list(self.connections):
            each.reset()
        for writer in self.waiting:
            writer.transport.abort()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.waiting.append(writer)
        while self.mode in ("freeze", "cut") and not writer.is_closing():
            await self.changed.wait()
        self.waiting.remove(writer)
        if self.mode == "refuse" or writer.is_closing():
            writer.transport.abort()
            return
        try:
            from_server, to_server = await asyncio.open_unix_connection(self.upstream)
        except OSError:  # the server is down
            writer.transport.abort()
            return
        connection = Connection(writer, to_server)
        self.connections.add(connection)
        try:
            await self._pump_both(connection, reader, from_server)
        finally:
            self.connections.discard(connection)
            writer.transport.abort() if connection.broken else writer.close()
            to_server.close()

    async def _pump_both(
        self,
        connection: Connection,
        reader: asyncio.StreamReader,
        from_server: asyncio.StreamReader,
    ) -> None:
        pumps = [
            asyncio.ensure_future(self._to_server(connection, reader)),
            asyncio.ensure_future(self._to_client(connection, from_server)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _to_server(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(PIECE_BYTES):
            await self._gate()
            if self.eat > 0 and is_commit(piece) and connection.eating is None:
                self.eat -= 1
                connection.eating = asyncio.Event()
                connection.broken = True
            await self._forward(connection.server, piece)
            if connection.eating is not None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(connection.eating.wait(), ANSWER_S_MAX)
                self.eaten += 1
                connection.reset()
                return
        await self._gate()  # nobody hears the end of a client that was cut off

    async def _to_client(self, connection: Connection, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(PIECE_BYTES):
            if connection.eating is not None:
                connection.eating.set()
                continue
            await self._gate()
            if self.mode == "deaf" or connection.broken:
                connection.broken = True
                continue
            await self._forward(connection.client, piece)
        await self._gate()

    async def _gate(self) -> None:
        while self.mode in ("freeze", "cut"):
            await self.changed.wait()

    async def _forward(self, to: asyncio.StreamWriter, piece: bytes) -> None:
        if self.mode != "slow":
            to.write(piece)
        else:
            for start in range(0, len(piece), TRICKLE_BYTES):
                await asyncio.sleep(TRICKLE_S)
                to.write(piece[start : start + TRICKLE_BYTES])
        with suppress(ConnectionError):
            await to.drain()


def is_commit(piece: bytes) -> bool:
    """Tell whether a client's bytes say COMMIT: as psycopg does, or as a worker (gapless.db.wire)."""
    if piece[:1] == b"Q":
        return piece[5:].strip(b"\0; ").lower() == b"commit"
    return b"\0commit\0" in piece or b"\0gapless_consume_commit_" in piece


async def serve(upstream: str, lines: int) -> None:
    """Say the ports of so many lines, then obey until standard input ends."""
    made = [Line(upstream) for _ in range(lines)]
    servers = [await asyncio.start_server(line.accept, "127.0.0.1", 0) for line in made]
    say({"ports": [server.sockets[0].getsockname()[1] for server in servers]})
    commands = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(commands), sys.stdin
    )
    while text := await commands.readline():
        order = json.loads(text)
        line = made[order["line"]]
        if "mode" in order:
            line.set_mode(order["mode"])
        if "eat" in order:
            line.eat = order["eat"]
        if "upstream" in order:
            line.upstream = order["upstream"]
        if order.get("reset"):
            line.reset()
        say({"eaten": line.eaten, "connections": len(line.connections)})
    for line in made:
        line.reset()


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2])))
