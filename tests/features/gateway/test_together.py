"""Requests that come together share a transaction; each is what it would be alone."""

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import gapless
from features.gateway.together import (
    KINDS,
    Asked,
    answer,
    connected,
    in_flight,
    locks_waited_for,
    transactions,
)
from gapless import ops, testing
from gapless.consume.unit import Unit
from gapless.log.topics import Topic, ensure_topic
from support.fleet import until
from support.gateways import Client, Open, Serve

REQUESTS = 14


def one_by_one(gateway: Client, sent: list[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    for request in sent:
        with connected(gateway) as sock:
            sock.sendall(request)
            yield answer(sock)


def comparable(status: int, said: dict[str, Any], topic: str) -> tuple[int, dict[str, Any]]:
    """An answer without what is another's each time: ids, partitions and offsets."""
    said = {name: said[name] for name in said if name != "transaction_id"}
    said["scheduled_ids"] = len(said.get("scheduled_ids", ()))
    said["places"] = [each["events"] for each in said.get("places", ())]
    return status, json.loads(json.dumps(said).replace(f"of {topic}/", "of TOPIC/"))


def handled(dsn: str, topic: str) -> list[tuple[Any, ...]]:
    """The units of a topic, each with all that its events have."""
    units: list[tuple[Any, ...]] = []

    @gapless.handler(topic=topic, group=topic)
    def note(unit: Unit, _conn: Connection[Any]) -> None:
        ids = {str(event.transaction_id) for event in unit}
        events = [
            (
                event.payload,
                event.key,
                event.event_type,
                str(event.headers),
                event.host_id,
                event.user_id,
            )
            for event in unit
        ]
        units.append((events, ids))

    testing.drain(dsn, note)
    return units


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 8))]
)
def test_together_is_as_alone(open_gateway: Open, dsn: str, conn: Connection, seed: int) -> None:
    """The same events, units and answers; what is refused alone is refused, and nothing else."""
    dice = Random(seed)
    asked = [KINDS[0](0), *(dice.choice(KINDS)(n) for n in range(1, REQUESTS)), KINDS[9](99)]
    for topic in ("crowd", "alone"):
        ensure_topic(conn, topic, partitions=2)
        ops.add_schema(conn, topic, '{"type": "object"}', event_type="order")
    gateway = open_gateway(sessions=REQUESTS)
    with in_flight(gateway, conn, [each.sent("crowd") for each in asked]) as socks:
        crowd = [answer(sock) for sock in socks]
    alone = list(one_by_one(gateway, [each.sent("alone") for each in asked]))
    assert [comparable(*each, "crowd") for each in crowd] == [
        comparable(*each, "alone") for each in alone
    ]
    accepted = {said["transaction_id"] for _, said in crowd if said.get("scheduled_ids") == []}
    assert transactions(conn, "crowd") < len(accepted) == transactions(conn, "alone")
    together, apart = handled(dsn, "crowd"), handled(dsn, "alone")
    assert sorted(map(str, (events for events, _ in together))) == sorted(
        map(str, (events for events, _ in apart))
    )
    assert {each for _, ids in together for each in ids} == accepted
    assert all(len(ids) == 1 for _, ids in together)


class Wire:
    """A way to the server, all lines of which can be cut: what it says there is heard no more."""

    def __init__(self, dsn: str) -> None:
        self._server = conninfo_to_dict(dsn)
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=port)
        self._lines: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def _upstream(self) -> socket.socket:
        host, port = str(self._server["host"]), int(self._server.get("port") or 5432)
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(f"{host}/.s.PGSQL.{port}")
        return sock

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                ends = client, self._upstream()
                self._lines.add(ends[1])
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError):
            while True:
                for sock in select.select([client, server], [], [])[0]:
                    data = sock.recv(65536)
                    if not data or (sock is server and server not in self._lines):
                        return
                    (server if sock is client else client).sendall(data)

    def cut(self) -> None:
        self._lines.clear()

    def close(self) -> None:
        self._listening.close()


def test_nobody_is_stored_twice_when_the_answer_to_a_commit_is_lost(
    open_gateway: Open, dsn: str, conn: Connection, orders: Topic
) -> None:
    """They are committed, and no client is told so: 503, as a single one."""
    wire = Wire(dsn)
    gateway = open_gateway(dsn=wire.dsn, sessions=REQUESTS)
    sent = [Asked({"payload": n}).sent("orders") for n in range(8)]
    assert [status for status, _ in one_by_one(gateway, sent[:1])] == [202]
    with in_flight(gateway, conn, sent[1:], wire.cut) as socks:
        statuses = [answer(sock)[0] for sock in socks]
    assert statuses.count(503) > 1
    assert set(statuses) <= {202, 503}, "one that began later has a line of its own"
    wire.close()
    query = "select payload::text from gapless.outbox_message_t"
    # The server commits what it was asked for, maybe after the clients were told that the line is gone.
    found = until(
        lambda: len(all_ := conn.execute(query).fetchall()) >= 8 and all_, "all are there"
    )
    assert sorted(int(row[0]) for row in found) == list(range(8))


def test_a_gateway_that_is_killed_before_it_answers(
    serve: Serve, conn: Connection, orders: Topic
) -> None:
    """What was answered with 202 is in the log, once; what was not is there once, or not at all."""
    gateway = serve(GAPLESS_FAILPOINTS="publish.after=kill@3")
    sent = [Asked({"payload": n}).sent("orders") for n in range(18)]
    said = [each for _, each in one_by_one(gateway, sent[:2])]
    with in_flight(gateway, conn, sent[2:]) as socks:
        for sock in socks:
            with suppress(OSError, ValueError):
                said.append(answer(sock)[1])
    assert gateway.process.wait(20) == -9
    found = [
        (str(row[0]), int(row[1]))
        for row in conn.execute(
            "select coalesce(transaction_id, gapless.transaction_uuid(xid, gapless.timeline())), payload::text"
            " from gapless.outbox_message_t"
        )
    ]
    ids, numbers = [each[0] for each in found], [each[1] for each in found]
    assert len(set(ids)) == len(ids)
    assert len(set(numbers)) == len(numbers) > len(said), "some were committed and not answered"
    assert all(ids.count(each["transaction_id"]) == 1 for each in said)


def test_one_that_is_slow_holds_up_nobody_else(gateway: Client, conn: Connection, dsn: str) -> None:
    """It waits for a lock, in a trigger of somebody's; those that come after it do not."""
    conn.execute(
        "create function wait() returns trigger language plpgsql as"
        " $$begin perform pg_advisory_xact_lock(7); return null; end$$"
    )
    conn.execute(
        "create trigger wait after insert on gapless.outbox_message_t for each row"
        " when (new.key = 'slow') execute function wait()"
    )
    slow, quick = (Asked({"payload": 1, "key": key}).sent("orders") for key in ("slow", "quick"))
    with connected(gateway) as sock:
        with conn.transaction():
            conn.execute("select pg_advisory_xact_lock(7)")
            sock.sendall(slow)
            until(lambda: locks_waited_for(conn), "it waits")
            assert [status for status, _ in one_by_one(gateway, [quick] * 3)] == [202] * 3
        assert answer(sock)[0] == 202
