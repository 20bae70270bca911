"""Many requests at once, and the transactions that they need."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from typing import Any, NamedTuple

from psycopg import Connection

from support.fleet import until
from support.gateways import Client


def connected(gateway: Client) -> socket.socket:
    host, _, port = gateway.url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


TRACE = "00-0af7651916cd43dd8448eb211c80319c-{:016x}-01"


class Asked(NamedTuple):
    """A request to publish: a body, and what stands in its head; topic "": the usual one."""

    body: Any
    head: tuple[tuple[str, str], ...] = ()
    query: str = ""
    topic: str = ""

    def sent(self, topic: str) -> bytes:
        body = json.dumps(self.body).encode()
        head = {"Host": "localhost", "Content-Type": "application/json", **dict(self.head)}
        head["Content-Length"] = str(len(body))
        lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
        path = f"/v1/topics/{self.topic or topic}/events{self.query}"
        return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


# What may come, by its number: usual events most often, as in life.
KINDS: tuple[Callable[[int], Asked], ...] = (
    *[lambda n: Asked({"payload": n, "key": f"k{n % 3}"})] * 5,
    lambda n: Asked([{"payload": n, "key": "k", "headers": {"a": n}, "event_type": "made"}]),
    lambda n: Asked({"payload": n, "host_id": f"h{n}", "user_id": "u"}),
    lambda n: Asked({"payload": n}, (("traceparent", TRACE.format(n + 1)),)),
    lambda n: Asked({"payload": n}, query="?wait=offset"),
    lambda n: Asked({"payload": n, "headers": {"a": "\0"}}),  # the server refuses it
    lambda n: Asked({"payload": n, "key": "\0"}),  # and this one publish()
    lambda n: Asked({"payload": n, "event_type": "order"}),  # and this one its schema
    lambda n: Asked({"payload": n}, topic="nowhere"),
    lambda n: Asked({"payload": n, "dedupe_key": f"d{n}"}),
    lambda n: Asked({"payload": n, "deliver_in": 3600}),
    lambda n: Asked({"payload": n}, (("Idempotency-Key", f"i{n}"),)),
    lambda n: Asked([{"payload": n, "key": "k"}, {"payload": n, "key": "k"}]),
    lambda n: Asked({"payload": n, "headers": {"a": "x" * 17_000}}),
)


def answer(sock: socket.socket) -> tuple[int, dict[str, Any]]:
    found = HTTPResponse(sock, method="POST")
    found.begin()
    return found.status, json.loads(found.read())


def locks_waited_for(conn: Connection) -> int:
    row = conn.execute(
        "select count(*) from pg_locks"
        " where not granted and (mode = 'RowExclusiveLock' or locktype = 'advisory')"
    ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def in_flight(
    gateway: Client, conn: Connection, sent: list[bytes], meanwhile: Callable[[], Any] = bool
) -> Iterator[list[socket.socket]]:
    """Requests that have come while nobody can publish; from the block on everybody can."""
    with ExitStack() as stack:
        with conn.transaction():
            conn.execute("lock table gapless.outbox_message_t in share mode")
            socks = [stack.enter_context(connected(gateway)) for _ in sent]
            for number, (sock, request) in enumerate(zip(socks, sent, strict=True)):
                sock.sendall(request)
                if not number:  # it waits for the lock alone, then all others together
                    until(lambda: locks_waited_for(conn), "the first one waits")
            assert gateway.get("/healthz").status_code == 200  # the loop has read them all by now
            until(lambda: locks_waited_for(conn) > 1, "the others wait")
            meanwhile()
        yield socks


def transactions(conn: Connection, topic: str) -> int:
    row = conn.execute(
        "select count(distinct xid) from gapless.outbox_message_t where topic_id = gapless.topic_id(%s)",
        [topic],
    ).fetchone()
    assert row is not None
    return int(row[0])
