"""A gateway as a service: its start, its end, a database that goes away, what it says of itself."""

import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.server import acquire, stop
from gapless.log.sequence import create_chunks
from gapless.log.topics import Topic, ensure_topic
from support.fleet import until
from support.gateways import EVENTS, Client, Inside, Limits, Open, Serve, problem
from support.records import value
from support.servers import open_folder


def test_it_says_how_it_is(gateway: Client) -> None:
    assert (gateway.get("/healthz").text, gateway.get("/readyz").text) == ("ok\n", "ready\n")
    status = gateway.get("/v1/status")
    assert [each["topic"] for each in status.json()["topics"]] == ["orders"]
    assert status.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in status.headers
    assert gateway.get("/openapi.json").json()["openapi"].startswith("3.1")
    gateway.publish(1, wait="offset")
    metrics = gateway.get("/metrics")
    assert metrics.status_code == 200
    assert "gapless_log_end_offset{" in metrics.text
    assert "gapless_database_up 1.0" in metrics.text


def test_partitions_of_a_group_alone(gateway: Client, conn: Connection) -> None:
    """A page of a thousand groups needs those of one; all are there unless it says so."""
    for group in ("billing", "mailer"):
        conn.execute("select gapless.create_group(%s, 'orders')", [group])
    conn.execute(
        "update gapless.consumer_offsets set next_offset = 3 + partition_id where group_id = 'mailer'"
    )
    both = {("billing", 0), ("billing", 1), ("mailer", 0), ("mailer", 1)}
    whole = gateway.get("/v1/status").json()
    for wanted, there in (
        ("all", both),
        ("", both),
        ("none", set()),
        ("mailer/orders", {("mailer", 0), ("mailer", 1)}),
        ("mailer/other", set()),
    ):
        found = gateway.get("/v1/status", params={"partitions": wanted}).json()
        assert {(each["group"], each["partition"]) for each in found["partitions"]} == there
        assert found.keys() == whole.keys()
        if wanted not in ("", "all"):
            assert [each.pop("current_offset") for each in found["groups"]] == [2, 7]
        assert found["groups"] == whole["groups"]
    for wrong in ("mailer", "mailer/", "/orders", "a/b/c", "None"):
        problem(gateway.get("/v1/status", params={"partitions": wrong}), 400)


def test_a_look_is_shared_by_those_who_allow_its_age(gateway: Client) -> None:
    """Each other request gets one that begins after it: a page sees what it has changed."""
    taken = []
    for more in ({}, {"age_s": 10}, {"partitions": "none", "age_s": 10}, {}, {"age_s": 10}):
        found = gateway.get("/v1/status", params=more)
        assert found.headers["content-encoding"] == "gzip"
        taken.append(found.json()["taken_at"])
    assert taken[0] == taken[1] == taken[2] < taken[3] == taken[4]
    for accepts, is_packed in {
        "identity": False,
        "gzip;q=0": False,
        "br, gzip ; q=0.0, deflate": False,
        "x-gzip": False,
        "br;q=0, GZIP; q=0.01": True,
        "gzip;q=1.0": True,
    }.items():
        found = gateway.get("/v1/status", headers={"Accept-Encoding": accepts})
        assert ("content-encoding" in found.headers) == is_packed, accepts
    problem(gateway.get("/v1/status", params={"age_s": -1}), 400)


@pytest.mark.long
def test_requests_finish_when_it_is_told_to_end(
    serve: Serve, orders: Topic, conn: Connection
) -> None:
    gateway = serve()
    conn.execute("select gapless.create_group('billing', 'orders')")
    answers: list[dict[str, Any]] = []
    waits = threading.Thread(
        target=lambda: answers.append(gateway.publish(1, wait="group:billing", timeout=30))
    )
    waits.start()
    count = "select count(*) from gapless.outbox_message_t"
    until(lambda: conn.execute(count).fetchone() == (1,), "the event is stored", within=gateway.log)
    began_s = time.monotonic()
    gateway.process.terminate()
    waits.join()
    assert answers[0]["state"] in ("pending", "unsequenced"), "what waits is answered, not cut off"
    assert gateway.process.wait(timeout=30) == 0
    assert time.monotonic() - began_s < 15
    assert "Traceback" not in gateway.log()


@pytest.mark.long
def test_a_password_of_its_dsn_is_in_no_list_of_processes(serve: Serve, dsn: str) -> None:
    secret = "s3cr et"
    gateway = serve("--dsn", make_conninfo(dsn, password=secret))
    told = ["ps", "-ww", "-o", "command=", "-p", str(gateway.process.pid)]
    shown = subprocess.run(told, capture_output=True, text=True, check=True).stdout
    assert "gateway" in shown
    assert "s3cr" not in shown


@pytest.mark.long
def test_what_cannot_be_is_said_at_the_start(bare, dsn: str, empty_dsn: str) -> None:
    assert "no gapless schema" in bare("gateway", GAPLESS_DSN=empty_dsn).complaint()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = bare("gateway", "--listen", f"127.0.0.1:{port}", GAPLESS_DSN=dsn)
    assert f"a gateway cannot listen at 127.0.0.1:{port}" in done.complaint()


def test_nobody_is_told_where_the_database_is(caplog: pytest.LogCaptureFixture) -> None:
    """Its socket, its name and the role are for the log."""
    caplog.set_level("WARNING", "gapless.gateway")
    limits = Limits(event_bytes_max=1000, batch_bytes_max=1000, batch_events_max=10)
    inside = Inside("host=/nowhere/sockets dbname=secret user=somebody", limits, 1)
    try:
        paths = ("/readyz", "/v1/status", "/v1/topics/orders/stream", "/metrics", "/v1/doctor")
        for path in paths:
            is_asked = path == "/v1/doctor"
            done = inside.client.post(path, json={}) if is_asked else inside.client.get(path)
            assert (done.status_code == 503) == (path != "/metrics"), path
            assert not {"/nowhere", "secret", "somebody"} & {
                *re.split(r"[^/\w]|/sockets", done.text)
            }
    finally:
        inside.end()
    lines = [each.getMessage() for each in caplog.records]
    assert sum("/nowhere/sockets" in line for line in lines) >= 3
    assert any(
        each.name.endswith("access") and "/nowhere" in each.getMessage() for each in caplog.records
    )


@pytest.mark.long
@pytest.mark.chaos
@pytest.mark.slow
def test_it_survives_a_restart_of_the_database(serve: Serve) -> None:
    with open_folder() as folder:
        home = folder / "home"
        server = acquire(home)
        with connect(server.dsn, role="test") as conn:
            migrate(conn)
            create_chunks(conn)
            ensure_topic(conn, "orders", partitions=1)
        gateway = serve(GAPLESS_DSN=server.dsn)
        assert gateway.publish(1)["events"] == 1
        stop(home)
        for _ in range(30):
            done = gateway.post(EVENTS, json={"payload": 2})
            assert "does not answer" in problem(done, 503)["detail"]
            assert done.headers["retry-after"] == "1"
        assert gateway.get("/readyz").status_code == 503
        assert gateway.get("/healthz").status_code == 200, "a restart would not help"
        server = acquire(home)
        until(lambda: gateway.get("/readyz").status_code == 200, "it is back", within=gateway.log)
        assert gateway.publish(3)["events"] == 1
        log = gateway.log()
        assert log.count("the database is away") == 1, log
        assert log.count("the database is back") == 1, log
        with connect(server.dsn, role="test") as conn:
            rows = conn.execute("select payload::text from gapless.outbox_message_t order by id")
            assert rows.fetchall() == [("1",), ("3",)]
        stop(home)


@pytest.mark.long
def test_many_at_once_share_the_sessions(
    open_gateway: Open, orders: Topic, conn: Connection
) -> None:
    gateway = open_gateway(sessions=2)
    threads = [threading.Thread(target=gateway.publish, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = conn.execute("select count(*) from gapless.outbox_message_t").fetchone()
    assert row == (40,)
    sessions = "select count(*) from pg_stat_activity where application_name = 'gapless/gateway'"
    found = conn.execute(sessions + " and datname = current_database()").fetchone()
    assert found is not None
    assert found[0] <= 2


@pytest.mark.long
def test_sessions_that_were_ended_are_made_again(gateway: Client, conn: Connection) -> None:
    """Whoever ends idle sessions (an operator, a pooler, a firewall) costs no request."""
    threads = [threading.Thread(target=gateway.publish, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended = conn.execute(
        "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
        " where application_name = 'gapless/gateway' and datname = current_database()"
    ).fetchone()
    assert ended is not None
    assert ended[0] > 0
    for n in range(8):
        assert gateway.publish(n)["events"] == 1


def test_what_nobody_reads_gets_offsets_too(gateway: Client, conn: Connection) -> None:
    """Nobody else sequences, and nobody waits, reads or streams."""
    for n in range(1, 4):
        gateway.publish(n)
        until(lambda n=n: events_with_offsets(conn) == n, "it has an offset")


def events_with_offsets(conn: Connection) -> int:
    return int(value(conn, "select coalesce(sum(events), 0) from gapless.topics"))


def test_streams_and_offsets_that_fail_say_why_once(
    serve: Serve, orders: Topic, conn: Connection, role: Callable[..., str]
) -> None:
    dsn = role("gapless_producer", "gapless_consumer")
    name = conninfo_to_dict(dsn)["user"]
    gateway = serve(GAPLESS_DSN=dsn)
    told = ("streams of topic orders stand still", "events may get no offsets from this gateway")
    with gateway.client.stream("GET", "/v1/topics/orders/stream") as answer:
        lines = answer.iter_lines()  # to let go of it would close the stream
        next(lines)
        conn.execute(f"revoke gapless_consumer, gapless_producer from {name}")  # type: ignore[arg-type]
        until(
            lambda: all(each in gateway.log() for each in told), "both are told", within=gateway.log
        )
        conn.execute(f"grant gapless_consumer, gapless_producer to {name}")  # type: ignore[arg-type]
        until(lambda: gateway.log().count(" over: ") == 2, "both work again", within=gateway.log)
    assert [gateway.log().count(each) for each in told] == [2, 2]
    assert "permission denied" in gateway.log()
