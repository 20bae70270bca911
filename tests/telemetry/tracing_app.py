"""Two handlers in a row, of a program that traces: its spans go to a file, in batches."""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import psycopg
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import gapless

log = logging.getLogger("shop")


class ToFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ["SPANS"]).open("a") as file:
            for span in spans:
                assert span.context is not None
                line = {
                    "name": span.name,
                    "trace_id": f"{span.context.trace_id:032x}",
                    "links": [f"{link.context.trace_id:032x}" for link in span.links],
                }
                file.write(json.dumps(line) + "\n")
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ToFile(), schedule_delay_millis=3_600_000))
trace.set_tracer_provider(provider)


@gapless.handler(topic="orders", group="billing")
def bill(unit: gapless.Unit, conn: psycopg.Connection) -> None:
    log.info("billing")
    gapless.publish(conn, "paid", {"of": unit.first_offset})


@gapless.handler(topic="paid", group="mail", delivery="at-least-once")
def mail(unit: gapless.Unit) -> None:
    log.info("mailing")
