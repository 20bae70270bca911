"""A trace through the log: publish, sequencer, worker, second publish; seen by OpenTelemetry's own SDK."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from psycopg import Connection

import gapless
from gapless import ops
from gapless.consume.terms import agree
from gapless.features.spark.task import Work, find_handler, work_on
from gapless.log.event import NewEvent
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from gapless.settings import Settings
from gapless.testing import drain
from support.fleet import until
from support.group import owner
from support.hostile import HOSTILE
from support.turn import terms
from support.watched import Watch

TRACING_APP = Path(__file__).with_name("tracing_app.py")
_exported = InMemorySpanExporter()
_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_exported))


class Traced:
    """Two topics, a session, and what is recorded in this process while a test runs."""

    def __init__(self, dsn: str, conn: Connection) -> None:
        self.dsn = dsn
        self.conn = conn
        ensure_topic(conn, "orders", partitions=1)
        ensure_topic(conn, "paid", partitions=1)

    def publish(self, *payloads: object, **fields: Any) -> trace.SpanContext:
        """Publish in a span of its own, one transaction; return its context."""
        with trace.get_tracer("shop").start_as_current_span("checkout") as span:
            events = [NewEvent(payload=each, **fields) for each in payloads]
            gapless.publish(self.conn, "orders", events)
        return span.get_span_context()

    def drain(self, handler: Any) -> Any:
        return drain(self.dsn, handler)

    @property
    def finished(self) -> tuple[ReadableSpan, ...]:
        return _exported.get_finished_spans()

    @property
    def processed(self) -> list[ReadableSpan]:
        return [span for span in self.finished if span.name.startswith("process ")]


@pytest.fixture
def traced(dsn: str, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", _provider)
    _exported.clear()
    yield Traced(dsn, conn)
    _exported.clear()


@gapless.handler(topic="orders", group="billing")
def quiet(unit: gapless.Unit, conn: Connection) -> None:
    """Does nothing."""


def refuse(unit: gapless.Unit, *_: Connection) -> None:
    raise ValueError("bad order")


def events_of(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


def ids(context: Any) -> tuple[int, int]:
    return context.trace_id, context.span_id


def test_from_publish_to_the_second_worker(traced: Traced) -> None:
    @gapless.handler(topic="orders", group="billing")
    def bill(unit: gapless.Unit, conn: Connection) -> None:
        with trace.get_tracer("shop").start_as_current_span("charge"):
            gapless.publish(conn, "paid", {"of": unit.first_offset})

    @gapless.handler(topic="paid", group="mail")
    def mail(unit: gapless.Unit, conn: Connection) -> None:
        pass

    checkout = traced.publish({"n": 1})
    traced.drain(bill)
    traced.drain(mail)
    first, second = traced.processed
    assert first.parent is None, "linked, not a child: a batch has many producers"
    assert [ids(link.context) for link in first.links] == [ids(checkout)]
    (charge,) = [span for span in traced.finished if span.name == "charge"]
    assert charge.parent is not None
    assert ids(charge.parent) == ids(first.context)
    assert [ids(link.context) for link in second.links] == [ids(charge.context)]
    assert first.kind == trace.SpanKind.CONSUMER
    assert dict(first.attributes or {}) == {
        "messaging.system": "gapless",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "billing",
        "messaging.batch.message_count": 1,
        "gapless.offset": 1,
    }
    assert events_of(first) == ["gapless.attempt"]


@pytest.mark.parametrize(("links_max", "linked"), [(128, 3), (4, 2)])
def test_a_batch_has_a_link_to_each_producer(
    traced: Traced, monkeypatch: pytest.MonkeyPatch, links_max: int, linked: int
) -> None:
    """To those of its first events, up to a limit."""
    monkeypatch.setattr("gapless.telemetry.spans.LINKS_MAX", links_max)

    @gapless.handler(topic="orders", group="billing", batch=True)
    def bill(batch: gapless.Batch, conn: Connection) -> None:
        pass

    producers = [traced.publish(1, 2, 3), traced.publish(4), traced.publish(5)]
    gapless.publish(traced.conn, "orders", 6)  # of no trace
    traced.drain(bill)
    (one,) = traced.processed
    assert [ids(link.context) for link in one.links] == [ids(each) for each in producers[:linked]]
    assert (one.attributes or {})["messaging.batch.message_count"] == 6


def test_a_plain_insert_may_set_the_header(traced: Traced) -> None:
    traced.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, payload, headers)"
        " select topic_id, '1', jsonb_build_object('traceparent', w, 'tracestate', 'a=b')"
        " from gapless.topic, unnest(array["
        "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'nonsense', '']) w"
        " where name = 'orders'"
    )
    traced.conn.execute("select gapless.publish('orders', '1', headers => '{\"traceparent\": 7}')")
    traced.drain(quiet)
    links = [link for span in traced.processed for link in span.links]
    assert [f"{link.context.trace_id:032x}" for link in links] == [
        "0af7651916cd43dd8448eb211c80319c"
    ]
    assert links[0].context.trace_state.to_header() == "a=b"


class TestPublish:
    def headers(self, conn: Connection) -> list[Any]:
        return [row[0] for row in conn.execute("select headers from gapless.outbox_message_t")]

    def test_what_is_there_stays(self, traced: Traced) -> None:
        own = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
        event = NewEvent(payload=1, headers={"tenant": "a"})
        traced.publish(1, headers=own)
        with trace.get_tracer("shop").start_as_current_span("checkout") as span:
            gapless.publish(traced.conn, "orders", event)
            gapless.publish(traced.conn, "orders", 1, headers=b'{"as": "text"}')
        kept, added, text = self.headers(traced.conn)
        assert kept == own
        context = span.get_span_context()
        found = f"00-{context.trace_id:032x}-{context.span_id:016x}"
        assert added.pop("traceparent").startswith(found)
        assert added == {"tenant": "a"}
        assert text == {"as": "text"}
        assert event.headers == {"tenant": "a"}, "the caller's event is the caller's"


class TestFailures:
    def test_a_dead_letter(self, traced: Traced) -> None:
        traced.publish(1)
        traced.drain(gapless.handler(topic="orders", group="billing")(refuse))
        *before, last = traced.processed
        assert before, "the call that failed in the batch"
        assert events_of(last) == ["gapless.attempt", "exception", "gapless.dead_letter"]
        assert last.status.status_code == trace.StatusCode.ERROR
        assert (last.attributes or {})["error.type"] == "ValueError"

    @pytest.mark.parametrize(
        ("mode", "delivery"),
        [("ordered", "exactly-once"), ("queue", "exactly-once"), ("queue", "at-least-once")],
    )
    def test_retries_and_then_a_dead_letter(self, traced: Traced, mode: Any, delivery: Any) -> None:
        again: dict[str, Any] = {"on_failure": "retry", "retry_delays_s": (0, 0)}
        make = gapless.handler(
            topic="orders", group="billing", mode=mode, delivery=delivery, **again
        )
        producer = traced.publish(1)
        traced.drain(make(refuse))
        told = [
            (events_of(span)[-1], (span.events[0].attributes or {})["gapless.attempt"])
            for span in traced.processed
        ]
        assert told[-3:] == [("gapless.retry", 1), ("gapless.retry", 2), ("gapless.dead_letter", 3)]
        for span in traced.processed:  # a unit that was set aside has its producer still
            assert [ids(link.context) for link in span.links] == [ids(producer)]

    def test_at_least_once(self, traced: Traced) -> None:
        @gapless.handler(topic="orders", group="billing", delivery="at-least-once", concurrency=4)
        def bill(unit: gapless.Unit) -> None:
            with trace.get_tracer("shop").start_as_current_span("call"):
                if next(iter(unit)).payload == 2:
                    raise ValueError("bad order")

        producers = [traced.publish(n, key=str(n)) for n in range(4)]
        traced.drain(bill)
        found = {(span.attributes or {})["gapless.offset"]: span for span in traced.processed}
        assert [ids(found[n + 1].links[0].context) for n in range(4)] == [
            ids(each) for each in producers
        ]
        assert events_of(found[3])[-1] == "gapless.dead_letter"
        calls = [span for span in traced.finished if span.name == "call"]
        assert {ids(span.parent) for span in calls} == {
            ids(span.context) for span in found.values()
        }

    def test_what_the_program_set_up_may_fail(
        self,
        traced: Traced,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("the collector is down")

        class SilentError(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

        @gapless.handler(topic="orders", group="billing")
        def bill(unit: gapless.Unit, conn: Connection) -> None:
            if next(iter(unit)).payload == 2:
                raise SilentError

        gapless.publish(traced.conn, "orders", 1)
        gapless.publish(traced.conn, "orders", 2)
        for what in ("on_end", "on_start"):
            monkeypatch.setattr(_provider._active_span_processor, what, fail)
        done = traced.drain(bill)
        assert (done.units, done.dead) == (2, 1)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_an_error_that_cannot_be_recorded(traced: Traced, name: str) -> None:
    """Its unit is a dead letter as without a trace, its span ends, and all after it is handled."""
    make, _ = HOSTILE[name]

    @gapless.handler(topic="orders", group="billing")
    def bill(unit: gapless.Unit, conn: Connection) -> None:
        if next(iter(unit)).payload == 2:
            raise make()

    for number in range(1, 4):
        gapless.publish(traced.conn, "orders", number)
    done = traced.drain(bill)
    assert (done.units, done.dead) == (3, 1)
    assert len(traced.processed) >= 3, "the batch, and each alone"


def test_a_replay(traced: Traced) -> None:
    checkout = traced.publish(1)
    sequence(traced.conn)
    wanted = ops.ReplayRange(topic="orders", name="again")
    ops.create_replay(traced.conn, wanted)
    ops.run_replay(traced.conn, "again", quiet, agree(quiet, Settings()))
    (one,) = traced.processed
    assert [ids(link.context) for link in one.links] == [ids(checkout)]


def test_a_task_of_spark(traced: Traced, topic: Topic) -> None:
    """What a task does is one function; Spark calls it in a process of its own."""
    traced.conn.execute("create table effect (partition_id int, c_offset bigint, n int)")
    with trace.get_tracer("shop").start_as_current_span("checkout") as checkout:
        gapless.publish(traced.conn, "outbox", {"n": 1}, key="a")
    sequence(traced.conn)
    reference = f"{Path(__file__).parents[1] / 'spark_handlers.py'}:note"
    with owner(traced.dsn, "on-spark", topic) as held:
        for assignment in held.assignments:
            work_on(
                Work(
                    dsn=traced.dsn,
                    references=(reference,),
                    default_group=None,
                    default_topic="outbox",
                    assignment=assignment,
                    terms=terms(find_handler((reference,), ("", ""), ("on-spark", "outbox"))),
                    max_processing_ms=60_000,
                    quota_s=5.0,
                )
            )
    (one,) = traced.processed
    assert [ids(link.context) for link in one.links] == [ids(checkout.get_span_context())]


@pytest.mark.long
def test_in_worker_processes(watch: Watch, conn: Connection, tmp_path: Path) -> None:
    """The program sets up an SDK that sends in batches; what a worker recorded is sent before its end."""
    watched = watch("--log-format", "json", app=str(TRACING_APP), SPANS=str(tmp_path / "spans"))
    watched.until_ready()
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    gapless.publish(conn, "orders", {"n": 1}, headers={"traceparent": header})
    handled = "select count(*) from gapless.consumer_offsets where next_offset > 1"
    until(lambda: conn.execute(handled).fetchone() == (2,), "both handled it", within=watched.log)
    watched.process.send_signal(signal.SIGTERM)
    assert watched.process.wait(30) == 0, watched.log()
    found = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    by_topic = {span["name"]: span for span in found}
    first, second = by_topic["process orders"], by_topic["process paid"]
    assert first["links"] == ["0af7651916cd43dd8448eb211c80319c"]
    assert second["links"] == [first["trace_id"]]
    said = [line for line in watched.lines() if line["logger"] == "shop"]
    assert {line["topic"]: line["trace_id"] for line in said} == {
        "orders": first["trace_id"],
        "paid": second["trace_id"],
    }


@pytest.mark.long
def test_nobody_imports_opentelemetry() -> None:
    """It costs nothing where it is not used: not even that it is there is looked for."""
    program = (
        "import sys, gapless, gapless.testing, gapless.worker.supervisor, gapless.logs\n"
        "from gapless.telemetry import spans\n"
        "assert spans.current_headers() == {} and spans.tracer() is None\n"
        "assert not [m for m in sys.modules if m.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
