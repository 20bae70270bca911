"""Spark, local[2]: reading against its JDBC source, writing against COPY, micro-batches.

Reading passes every column of every row to Spark (its sink `noop`): sums over columns would cost
more than the reading. The JDBC source reads the same rows by ranges of their primary key, without
offsets; it needs Debian's package of the driver, and a server that listens to TCP.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

import psycopg

from benchmarks.cpu import descendants
from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import query
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.features.spark.ending import end_session
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.run import run_pipeline
from gapless.features.spark.session import spark_session
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import ensure_topic

JDBC_DRIVER = Path("/usr/share/java/postgresql.jar")  # of Debian's libpostgresql-jdbc-java
JDBC = "its JDBC source"
PARTS = 10
PAYLOAD_BYTES = 300
# The columns of the source, and those of the table that hold as much.
ALL = (
    None,
    "id, key, payload, topic_id, created_ts, headers, transaction_id, event_type, host_id, user_id",
)
THREE = (("partition", "offset", "value"), "topic_id, id, payload")
COPY = "COPY, one stream"
_LAKES = """
pipelines:
  delta:
    from: outbox
    to: {{delta: {folder}/delta}}
  iceberg:
    from: outbox
    to:
      iceberg: shop.orders
      catalog: {{uri: "sqlite:///{folder}/catalog.db", warehouse: "file://{folder}/warehouse"}}
"""


def run(setup: Setup) -> list[Figure]:
    """Start Spark, then read, write, and run small micro-batches."""
    conf = {"spark.driver.memory": "1g"}
    if JDBC_DRIVER.exists():
        conf["spark.jars"] = str(JDBC_DRIVER)
    is_shared = _has_session()
    began_s = perf_counter()
    spark = spark_session("local[2]", name="bench", conf={} if is_shared else conf)
    started_s = perf_counter() - began_s
    events = setup.pick(4_000, 100_000, 1_000_000)
    try:
        figures = [
            Figure(
                what="start of a Spark session",
                unit="s",
                ours=(started_s,),
            ),
            *_reading(setup, spark, events),
            _writing(setup, spark, min(events, 500_000)),
            _micro_batch(setup, spark, 1),
            _micro_batch(setup, spark, 1_000),
            *_backfill(setup, setup.pick(4_000, 100_000, 10_000_000)),
        ]
    finally:
        if not is_shared:
            end_session(spark)
    return figures


def _reading(setup: Setup, spark: Any, events: int) -> list[Figure]:
    with setup.database("spark_read") as dsn:
        with connect(dsn, role="bench") as conn:
            ensure_topic(conn, "outbox", partitions=8)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES, events_a_commit=20)
        runs = {}
        jdbc = _jdbc(dsn) if spark.conf.get("spark.jars", "") == str(JDBC_DRIVER) else None
        for what, (columns, same) in {"all columns": ALL, "three columns": THREE}.items():
            reads = {what: partial(_ours, spark, dsn, events, columns)}
            if jdbc is not None:
                reads[f"{JDBC}, {what}"] = partial(_theirs, spark, jdbc, events, same)
            for name, read in reads.items():
                assert read().count() == events
                runs[name] = partial(_rate, events, read)
                runs[name]()  # warm-up
        results = alternate(setup.pick(1, 3, 5), runs)
    figures = [
        Figure(
            what=f"reading {events} events of {PAYLOAD_BYTES} B, {what}",
            unit="events/s",
            ours=results[what],
            baseline=results.get(f"{JDBC}, {what}", ()),
            against=JDBC,
            target=Target("ratio", at_least=least),
        )
        for what, least in (("all columns", 1.2), ("three columns", 1.0))
    ]
    return [*figures, *_memory(f"{events} events read")]


def _jdbc(dsn: str) -> str | None:
    """Return the address of a database for Java, which knows no sockets of files; None: none."""
    with psycopg.connect(dsn) as conn:
        info, listens = conn.info, conn.execute(query("listens")).fetchone() == (True,)
        if not listens:
            return None
        host = "127.0.0.1" if info.host.startswith("/") else info.host
        login = urlencode({"user": info.user, "password": info.password})
        return f"jdbc:postgresql://{host}:{info.port}/{info.dbname}?{login}"


def _memory(after: str) -> list[Figure]:
    """Return the peak memory of a process so far (Linux)."""
    peaks: dict[str, list[float]] = {"the JVM (1 GB of heap)": [], "a Python worker": []}
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            what = Path(f"/proc/{pid}/cmdline").read_text()
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            kilobytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
            kind = "a Python worker" if "pyspark.daemon" in what else "the JVM (1 GB of heap)"
            peaks[kind] += [kb / 1024 for kb in kilobytes]
    return [
        Figure(what=f"most memory of {kind}, {after}", unit="MB", ours=(max(found),))
        for kind, found in peaks.items()
        if found
    ]


def _has_session() -> bool:
    from pyspark import SparkContext  # noqa: PLC0415 - an extra

    return SparkContext._active_spark_context is not None  # noqa: SLF001 - it has no public way


def _rate(events: int, read: Callable[[], Any]) -> float:
    """Return events a second; an earlier check has made sure that all are there."""
    began_s = perf_counter()
    read().write.format("noop").mode("overwrite").save()
    return events / (perf_counter() - began_s)


def _ours(spark: Any, dsn: str, events: int, columns: tuple[str, ...] | None) -> Any:
    reader = spark.read.format("gapless").option("url", dsn).option("subscribe", "outbox")
    reader = reader.option("recordsPerTask", -(-events // PARTS))
    if columns is not None:
        reader = reader.option("columns", ",".join(columns))
    return reader.load()


def _theirs(spark: Any, jdbc: str, events: int, columns: str) -> Any:
    step = -(-events // PARTS)
    last = PARTS - 1
    parts = [
        f"id > {n * step}" + (f" and id <= {(n + 1) * step}" if n < last else "")
        for n in range(PARTS)
    ]
    table = f"(select {columns} from gapless.outbox_message_t) rows"
    driver = {"driver": "org.postgresql.Driver", "fetchsize": "10000"}
    return spark.read.jdbc(jdbc, table, predicates=parts, properties=driver)


def _writing(setup: Setup, spark: Any, events: int) -> Figure:
    body = f"concat('{{\"pad\": \"', repeat('x', {PAYLOAD_BYTES - 11}), '\"}}')"
    df = spark.range(0, events, 1, 2).selectExpr(
        "concat('key-', id) as key", "'bench' as event_type", f"{body} as value"
    )
    runs = {
        "ours": partial(_written, setup, events, partial(_sink, df)),
        COPY: partial(_written, setup, events, partial(_copy, events)),
    }
    runs["ours"]()  # Spark starts its planners and Python workers once
    results = alternate(setup.rounds, runs)
    return Figure(
        what=f"writing {events} events of {PAYLOAD_BYTES} B",
        unit="events/s",
        ours=results["ours"],
        baseline=results[COPY],
        against=COPY,
        target=Target("ratio", at_least=0.8),
    )


def _written(setup: Setup, events: int, write: Callable[[str], None]) -> float:
    with setup.database("spark_write") as dsn:
        with connect(dsn, role="bench") as conn:
            ensure_topic(conn, "outbox", partitions=8)
        began_s = perf_counter()
        write(dsn)
        return events / (perf_counter() - began_s)


def _sink(df: Any, dsn: str) -> None:
    df.write.format("gapless").options(url=dsn, topic="outbox").mode("append").save()


def _copy(events: int, dsn: str) -> None:
    """Send the same rows as ready CSV: the cost in the server, without making the rows."""
    text = _rows(events)
    with (
        psycopg.connect(dsn, autocommit=True) as conn,
        conn.cursor() as cursor,
        cursor.copy(query("copy_events")) as copy,
    ):
        copy.write(text)


@cache
def _rows(events: int) -> str:
    body = '{""pad"": ""' + "x" * (PAYLOAD_BYTES - 11) + '""}'
    return "".join(f'1,key-{n},bench,"{body}"\n' for n in range(events))


def _micro_batch(setup: Setup, spark: Any, events: int) -> Figure:
    """Send so many events at a time through a stream: the cost of a micro-batch."""
    seconds: list[float] = []
    with (
        setup.database("spark_stream") as dsn,
        tempfile.TemporaryDirectory() as folder,
        connect(dsn, role="bench") as conn,
    ):
        ensure_topic(conn, "outbox", partitions=8)
        stream = (
            spark.readStream.format("gapless")
            .options(url=dsn, subscribe="outbox", startingOffsets="earliest")
            .load()
            .writeStream.foreachBatch(lambda df, _: df.collect())
            .option("checkpointLocation", folder)
            .start()
        )
        made = [NewEvent(payload={"pad": "x" * PAYLOAD_BYTES}, key=str(n)) for n in range(events)]
        for _ in range(setup.pick(4, 10, 20)):
            publish(conn, "outbox", made)
            stream.processAllAvailable()
        done = [each for each in stream.recentProgress if each.numInputRows == events]
        seconds = [each.durationMs["triggerExecution"] / 1000 for each in done[-15:]]
        stream.stop()
    return Figure(
        what=f"micro-batch of {events} event{'s' * (events > 1)}, trigger",
        unit="s",
        ours=tuple(seconds),
        target=Target("value", at_most=0.3) if events > 1 else None,
    )


def _backfill(setup: Setup, events: int) -> list[Figure]:
    """Bring a topic into new tables of a lake, once each: it takes minutes."""
    rates = {}
    with setup.database("spark_backfill") as dsn, tempfile.TemporaryDirectory() as folder:
        make_topic(dsn, "outbox", partitions=8)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES, events_a_commit=20)
        file = Path(folder, "pipelines.yml")
        file.write_text(_LAKES.format(folder=folder))
        for kind, pipeline in load_pipelines(file).items():
            began_s = perf_counter()
            assert run_pipeline(pipeline, dsn, tell=lambda _: None) == events
            rates[kind] = events / (perf_counter() - began_s)
    figures = [
        Figure(what=f"backfill of {events} events into {kind}", unit="events/s", ours=(rate,))
        for kind, rate in rates.items()
    ]
    return [*figures, *_memory(f"{events} events in lakes")]
