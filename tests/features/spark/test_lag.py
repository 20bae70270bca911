"""The lag of streaming queries, by what their progress tells and what the log has; no Spark needed."""

import json
import logging
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from socket import socket
from typing import Any

import pytest
from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.spark.exporter import end, log_served, serve_lag
from gapless.features.spark.lag import LagWatch, QueryLag, places_in
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.records import value

needs_client = pytest.mark.skipif(
    find_spec("prometheus_client") is None, reason="the extra for metrics"
)


def _end(**topics: dict[str, int]) -> str:
    """The end offset of a source, as Spark keeps it."""
    return json.dumps({"": {"timeline": 1}, **topics})


@pytest.fixture
def orders(conn: Connection) -> int:
    """Five events, the oldest of which is a minute old."""
    made = ensure_topic(conn, "orders", partitions=1)
    for n in range(5):
        publish(conn, "orders", {"n": n})
    conn.execute("update gapless.outbox_message_t set created_ts = now() - interval '1 minute'")
    sequence(conn)
    return made.topic_id


@pytest.fixture
def watch(dsn: str, told: list[QueryLag]) -> Iterator[LagWatch]:
    made = LagWatch(dsn, told.append)
    yield made
    made.close()


@pytest.fixture
def told() -> list[QueryLag]:
    return []


@pytest.mark.parametrize(
    ("sources", "places"),
    [
        ([_end(orders={"0": 3, "1": 1})], [("orders", 0, 3, None), ("orders", 1, 1, None)]),
        (
            [_end(a={"0": 9}), _end(a={"0": 4, "1": 2}, b={"0": 1})],
            [("a", 0, 4, None), ("a", 1, 2, None), ("b", 0, 1, None)],
        ),
        (['{"": {"timeline": 1, "created a": 7}, "a": {"0": 3}}'], [("a", 0, 3, 7)]),
        (['{"orders": {"0": 3}}', "17", None, '{"": 5}', "(log,3)", "{log=3}"], []),
    ],
)
def test_the_position_is_that_of_the_logs_among_the_sources(
    sources: list[str | None], places: list[Any]
) -> None:
    assert places_in(sources) == places


def test_lag_is_told_at_each_progress_and_grows_without_one(
    conn: Connection, orders: int, watch: LagWatch, told: list[QueryLag]
) -> None:
    watch.note("totals", [_end(orders={"0": 1})])
    (first,) = told
    assert (first.query, first.events) == ("totals", 5)
    assert 60 <= first.seconds < 600
    watch.note("totals", [_end(orders={"0": 6})])
    assert (told[-1].events, told[-1].seconds) == (0, 0.0)
    publish(conn, "orders", {})
    sequence(conn)
    (now,) = watch.lags()
    assert now.events == 1
    assert len(told) == 2
    watch.forget("totals")
    assert watch.lags() == []
    assert watch.note("rates", ["17"]) is None
    elsewhere = json.dumps({"": {"timeline": 1, "created orders": 7}, "orders": {"0": 1}})
    assert watch.note("elsewhere", [elsewhere]) is None, "a topic of that name in another database"
    assert (watch.lags(), len(told)) == ([], 2)


def test_a_lost_session_is_one_line_and_the_next_progress_has_another(
    conn: Connection,
    orders: int,
    watch: LagWatch,
    told: list[QueryLag],
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch.note("totals", [_end(orders={"0": 1})])
    kill = (
        "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
        " where application_name like %s and datname = current_database()"
    )
    assert value(conn, kill, "%spark lag%") == 1
    watch.note("totals", [_end(orders={"0": 1})])
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert line.startswith("the lag of query totals is not known: ")
    watch.note("totals", [_end(orders={"0": 2})])
    assert [each.events for each in told] == [5, 4]


@needs_client
def test_prometheus_reads_the_lag_of_now(conn: Connection, orders: int, watch: LagWatch) -> None:
    server = serve_lag("127.0.0.1:0", watch)
    try:
        watch.note("totals", [_end(orders={"0": 4})])
        publish(conn, "orders", {})
        sequence(conn)
        text = _read(server.server_address[1])
    finally:
        end(server)
    labels = '{partition="0",query="totals",topic="orders"}'
    assert f"gapless_query_lag_events{_any_order(text, labels)} 3.0" in text
    assert "gapless_query_lag_seconds{" in text
    assert "gapless_member" not in text, "it is of no supervisor"


@needs_client
def test_a_pipeline_serves_the_lag_of_its_group(conn: Connection, dsn: str, orders: int) -> None:
    conn.execute(
        "select gapless.register_pipeline('cold', array['orders'], 'earliest', 'table public.far')"
    )
    with log_served("127.0.0.1:0", dsn) as port:
        text = _read(port)
    labels = '{topic="orders",group="pipeline.cold",partition="0"}'
    assert f"gapless_lag_events{_any_order(text, labels)} 5.0" in text
    assert "gapless_database_up 1.0" in text
    assert "messaging_process" not in text


@needs_client
def test_an_address_that_is_taken(dsn: str) -> None:
    said: list[str] = []
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match="metrics cannot be read at"):
            with log_served(address, dsn):
                pass
        with log_served(address, dsn, said.append) as port:
            assert port is None
    assert "choose another address" in said[0]


def _read(port: int | None) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    return text


def _any_order(text: str, labels: str) -> str:
    """Return the labels as the text has them: their order is prometheus-client's."""
    wanted = set(labels.strip("{}").split(","))
    for line in text.splitlines():
        inside = line.partition("{")[2].partition("}")[0]
        if set(inside.split(",")) == wanted:
            return "{" + inside + "}"
    raise AssertionError(f"no {labels} in {text}")
