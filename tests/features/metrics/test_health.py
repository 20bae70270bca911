"""What probes are told: whether the loop turns, whether it is a member, and what stands still."""

import os
import signal
import socket
from pathlib import Path

import psycopg
import pytest
from psycopg import Connection

from gapless.lease.room import own_sessions
from support.commands import Gapless
from support.fleet import until
from support.watched import APP, Watch, order


@pytest.mark.long
def test_a_supervisor_that_hangs_is_not_healthy(watch: Watch) -> None:
    watched = watch()
    watched.until_ready()
    assert watched.read("/healthz") == (200, "ok\n")
    os.kill(watched.process.pid, signal.SIGSTOP)
    _status, text = until(
        lambda: (found := watched.read("/healthz"))[0] == 503 and found, "it says so"
    )
    assert "loop has not turned for" in text
    os.kill(watched.process.pid, signal.SIGCONT)
    until(lambda: watched.read("/healthz") == (200, "ok\n"), "well again")


@pytest.mark.long
def test_while_the_database_is_away_it_is_healthy_and_not_ready(
    watch: Watch, conn: Connection
) -> None:
    watched = watch()
    watched.until_ready()
    door = "alter database {} allow_connections {}"
    name = psycopg.sql.Identifier(conn.info.dbname)
    with psycopg.connect(conn.info.dsn, dbname="postgres", autocommit=True) as admin:
        admin.execute(psycopg.sql.SQL(door).format(name, psycopg.sql.SQL("false")))
        try:
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            _status, text = until(
                lambda: (found := watched.read("/readyz"))[0] == 503 and found, "not ready"
            )
            assert "not a member" in text or "does not answer" in text
            assert watched.read("/healthz")[0] == 200
        finally:
            admin.execute(psycopg.sql.SQL(door).format(name, psycopg.sql.SQL("true")))
    watched.until_ready()


@pytest.mark.long
def test_a_partition_that_stands_still_is_named(watch: Watch, conn: Connection) -> None:
    watched = watch(ON_FAILURE="block", GAPLESS_STANDSTILLS="1")
    watched.until_ready()
    order(conn, 1, bad=True)
    status, text = until(
        lambda: "standstill" in (found := watched.read("/readyz"))[1] and found,
        "it is named",
        timeout_s=40,
        within=watched.log,
    )
    assert status == 200, "an alert, not a restart"
    assert text.splitlines()[1].startswith("standstill billing/orders/")
    assert "@1: 1 events, none passed for" in text
    assert watched.scrape().value("gapless_standstill_seconds", group="billing") >= 1


@pytest.mark.long
def test_while_it_drains_it_is_not_ready(watch: Watch, conn: Connection) -> None:
    watched = watch()
    watched.until_ready()
    order(conn, 1, slow_s=5)
    until(lambda: watched.scrape().value("gapless_lag_events", group="billing") == 1, "it is at it")
    watched.process.send_signal(signal.SIGTERM)
    until(lambda: watched.read("/readyz") == (503, "draining: it was told to end\n"), "draining")
    assert watched.read("/healthz")[0] == 200
    assert watched.process.wait(30) == 0


@pytest.mark.long
def test_other_paths_and_methods(watch: Watch) -> None:
    watched = watch()
    status, text = watched.read("/etc/passwd")
    assert (status, text) == (404, "there is no /etc/passwd: read /metrics, /healthz, /readyz\n")
    for request in (b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff\xfe nonsense\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", watched.port), timeout=10) as sock:
            sock.sendall(request)
            answer = sock.recv(65536)
        assert b" 501 " in answer or b" 400 " in answer
    assert watched.read("/healthz")[0] == 200


@pytest.mark.long
def test_a_reader_that_says_nothing_keeps_nobody_waiting(watch: Watch) -> None:
    watched = watch()
    silent = [socket.create_connection(("127.0.0.1", watched.port)) for _ in range(20)]
    assert watched.read("/healthz")[0] == 200
    for each in silent:
        each.close()


class TestRefused:
    @pytest.mark.long
    def test_a_port_that_is_taken(self, gapless: Gapless) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            line = gapless("run", str(APP), "--metrics", address).complaint()
        assert line == (
            f"metrics cannot be read at {address}: Address already in use: choose another address"
        )

    def test_the_extra_that_is_missing(self, gapless: Gapless, tmp_path: Path) -> None:
        hide = (
            "import importlib.util as u; f = u.find_spec\n"
            "u.find_spec = lambda n, *a: None if n == 'prometheus_client' else f(n, *a)\n"
        )
        (tmp_path / "sitecustomize.py").write_text(hide)
        words = ("run", str(APP), "--metrics", "127.0.0.1:0")
        line = gapless(*words, PYTHONPATH=str(tmp_path)).complaint()
        assert line == 'metrics need prometheus-client: pip install "gapless[metrics]"'


@pytest.mark.long
def test_its_session_counts(watch: Watch, conn: Connection, gapless: Gapless) -> None:
    assert (own_sessions(is_measured=False), own_sessions(is_measured=True)) == (2, 3)
    watch().until_ready()
    assert conn.execute("select sessions from gapless.member").fetchone() == (3,)
    row = conn.execute(
        "select own from gapless.sessions_needed(null, 1, array['g'], array['orders'], 8)"
    ).fetchone()
    assert row == (5,), "three of it, two of the one that is about to join"
    taken = conn.execute(
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name = 'gapless/exporter'"
    ).fetchone()
    assert taken == (1,)
    (line,) = [
        each for each in gapless("doctor").lines if " connections " in each or "connections" in each
    ][:1]
    assert "take 5 sessions at most" in line, "two partitions, and three"
