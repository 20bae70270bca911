"""The network of the harness does what its modes say, to real sessions of a real server."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from chaos.process import Proxy
from gapless.consume.session import run, transaction
from support.fleet import until

AT_ONCE_S = 0.3  # so long nothing may arrive


class Network:
    """A proxy with one line, a session through it, and one past it."""

    def __init__(self, dsn: str) -> None:
        parts = conninfo_to_dict(dsn)
        self.proxy = Proxy(f"{parts['host']}/.s.PGSQL.{parts['port']}", 1)
        self.dsn = make_conninfo(
            dsn, host="127.0.0.1", port=self.proxy.ports[0], sslmode="disable", connect_timeout=2
        )
        self.direct = psycopg.connect(dsn, autocommit=True)
        self.direct.execute("create table t (n int)")
        self.far = self.connect()

    def connect(self) -> Connection:
        return psycopg.connect(self.dsn, autocommit=True)

    def rows(self) -> int:
        return len(self.direct.execute("select from t").fetchall())

    def close(self) -> None:
        self.proxy.close()
        self.direct.close()
        self.far.close()


class Insert(threading.Thread):
    """Inserts a row through the proxy; `error` is what came of it."""

    def __init__(self, conn: Connection) -> None:
        super().__init__(daemon=True)
        self._conn = conn
        self.error: psycopg.Error | None = None
        self.start()

    def run(self) -> None:
        try:
            self._conn.execute("insert into t values (1)")
        except psycopg.Error as error:
            self.error = error

    def is_waiting(self) -> bool:
        self.join(AT_ONCE_S)
        return self.is_alive()

    def end(self) -> psycopg.Error | None:
        self.join(20)
        assert not self.is_alive()
        return self.error


@pytest.fixture
def network(dsn: str) -> Iterator[Network]:
    made = Network(dsn)
    yield made
    made.close()


@pytest.mark.long
def test_what_was_frozen_arrives_later(network: Network) -> None:
    network.proxy.mode(0, "freeze")
    insert = Insert(network.far)
    assert insert.is_waiting()
    assert network.rows() == 0
    network.proxy.mode(0, "pass")
    assert insert.end() is None
    assert network.rows() == 1


@pytest.mark.long
def test_what_was_cut_never_arrives_and_the_connection_is_reset(network: Network) -> None:
    network.proxy.mode(0, "cut")
    insert = Insert(network.far)
    assert insert.is_waiting()
    network.proxy.mode(0, "pass")
    assert insert.end() is not None
    assert network.rows() == 0
    network.connect().close()


@pytest.mark.long
def test_the_server_hears_nothing_of_a_client_that_ended_while_cut(network: Network) -> None:
    network.proxy.mode(0, "cut")
    network.far.close()
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        network.connect()
    assert sessions(network) == 1, "no FIN came"
    network.proxy.mode(0, "pass")
    until(lambda: sessions(network) == 0, "the server knows")


@pytest.mark.long
def test_half_open_the_server_hears_and_the_client_does_not(network: Network) -> None:
    network.proxy.mode(0, "deaf")
    insert = Insert(network.far)
    until(lambda: network.rows() == 1, "the server heard it")
    assert insert.is_waiting()
    network.proxy.mode(0, "pass")
    assert insert.end() is not None, "an answer is missing: it cannot go on"


def test_the_answer_to_a_commit_is_lost(network: Network) -> None:
    network.proxy.order(0, eat=1)
    network.far.execute("begin")
    network.far.execute("insert into t values (1)")
    with pytest.raises(psycopg.OperationalError):
        network.far.execute("commit")
    assert network.rows() == 1, "committed all the same"
    assert network.proxy.eaten(0) == 1
    with network.connect() as conn, conn.transaction():
        conn.execute("insert into t values (2)")
    assert network.rows() == 2, "only one was to be lost"


@pytest.mark.parametrize("before", [0, 1])
def test_the_answer_to_a_workers_commit_is_lost(network: Network, before: int) -> None:
    """Prepared in the same breath, or before."""

    def work() -> None:
        with transaction(network.far, kept=True):
            run(network.far, "check_unit", {"settings": None})

    for _ in range(before):
        work()
    network.proxy.order(0, eat=1)
    with pytest.raises(psycopg.OperationalError):
        work()
    assert network.proxy.eaten(0) == 1


def test_refused_and_reset(network: Network) -> None:
    network.proxy.mode(0, "refuse")
    with pytest.raises(psycopg.OperationalError):
        network.far.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        network.connect()
    network.proxy.mode(0, "pass")
    with network.connect() as conn:
        network.proxy.order(0, reset=True)
        with pytest.raises(psycopg.OperationalError):
            conn.execute("select 1")


def test_a_slow_line_delivers_all_of_it(network: Network) -> None:
    network.proxy.mode(0, "slow")
    row = network.far.execute("select repeat('x', 20000)").fetchone()
    assert row == ("x" * 20000,)


def sessions(network: Network) -> int:
    rows = network.direct.execute(
        "select from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and backend_type = 'client backend'"
    ).fetchall()
    return len(rows)
