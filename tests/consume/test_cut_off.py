"""A connection that is lost right behind an answer, before the server says that it is ready again."""

import select
import socket
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.consume.read.backlog import Backlog
from gapless.consume.session import transaction
from gapless.consume.step import Step, step
from gapless.db.connect import connect
from support.turn import one_step, turn
from support.world import Group, World, make_handler

READY = b"Z\0\0\0\5"  # ReadyForQuery, without the byte that tells of the transaction
COMMITTED = b"COMMIT\0"


class Scissors:
    """A proxy for one connection; of the `last`-th answer from now on it keeps the end, and closes.

    Or, with `behind`, what comes after these bytes, when something does.
    """

    def __init__(self, dsn: str) -> None:
        words = conninfo_to_dict(dsn)
        self._server = f"{words['host']}/.s.PGSQL.{words['port']}"
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=port, sslmode="disable")
        self.last: int | None = None
        self.behind: bytes | None = None
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listening.close()
        self._thread.join(20)

    def _serve(self) -> None:
        client, _ = self._listening.accept()
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self._server)
            while self._pass_on(client, server):
                pass

    def _pass_on(self, client: socket.socket, server: socket.socket) -> bool:
        """Pass on what has come; tell whether there may be more."""
        for one in select.select([client, server], [], [], 60)[0]:
            data = one.recv(1 << 16)
            if not data:
                return False
            if one is client:
                server.sendall(data)
                continue
            if self.behind and (found := data.find(self.behind)) >= 0:
                passed = found + len(self.behind)
                if data[passed:-6]:
                    client.sendall(data[:passed])
                    return False
            if self.last is not None and data[-6:-1] == READY:
                self.last -= 1
            if self.last == 0:
                client.sendall(data[:-6])
                return False
            client.sendall(data)
        return True


@pytest.fixture
def scissors(world: World) -> Iterator[Scissors]:
    with closing(Scissors(world.dsn)) as made:
        yield made


KEEPS_UP = ["claim", "commit"]
IS_BEHIND = ["claim", "is in default", "fetch", "commit"]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("answers", "last"),
    [(answers, last) for answers in (KEEPS_UP, IS_BEHIND) for last in answers],
)
@pytest.mark.parametrize("warm", [0, 1])
def test_what_was_answered_is_not_taken_for_nothing(
    world: World, group: Group, scissors: Scissors, answers: list[str], last: str, warm: int
) -> None:
    """Nor are events missed that are there: what follows is the environment's error, or none."""
    world.units(*[1] * 5)
    handled = []
    handler = make_handler(lambda unit, _: handled.append(unit.first_offset))

    def take(conn: Connection[Any]) -> Step:
        ahead = Backlog()
        ahead.events = int(answers is IS_BEHIND)
        return one_step(conn, group.assignment, handler, ahead, batch_size=1)

    with connect(scissors.dsn, role="worker") as conn:
        with transaction(conn):
            pass  # the first of a session asks for its settings
        for _ in range(warm):
            take(conn)
        scissors.last = answers.index(last) + 1
        with nullcontext() if last == "commit" else pytest.raises(psycopg.OperationalError):
            assert take(conn).outcome == "done"
        assert conn.closed
    assert group.next_offset() == 1 + warm + (last == "commit")
    has_events = last in ("fetch", "commit") or answers is KEEPS_UP
    assert handled == [*range(1, 1 + warm + has_events)]
    group.drain()
    assert group.next_offset() == 6


def test_behind_the_commit_of_one_batch_and_before_the_next(
    world: World, group: Group, scissors: Scissors
) -> None:
    world.units(*[1] * 50)
    with connect(scissors.dsn, role="worker") as conn:
        conn.execute("select set_config('test.group', %s, false)", [group.name])
        behind = turn(conn, group.assignment, group.handler, batch_size=10)
        assert step(behind).events == 10
        scissors.behind = COMMITTED
        with pytest.raises(psycopg.OperationalError):
            step(behind, continue_while=lambda: True)
        assert conn.closed
    assert group.next_offset() == 21
    assert group.calls == list(range(1, 21))
    group.drain()
    group.assert_all_once(50)
