"""JSON lines say what they are about: of gapless and of the program's own loggers, in worker processes too."""

import io
import json
import logging
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless.log.topics import ensure_topic
from gapless.logs import FIELDS, JsonFormatter, LogFields, TextFormatter, has_turn
from gapless.testing import drain
from support.fleet import until
from support.watched import Watch, order


@pytest.mark.long
def test_in_a_handler_and_around_it(watch: Watch, conn: Connection) -> None:
    watched = watch("--log-format", "json")
    watched.until_ready()
    order(conn, 1)

    def about(logger: str, message: str) -> list[dict[str, Any]]:
        return [
            line
            for line in watched.lines()
            if line["logger"] == logger and message in line["message"]
        ]

    (said,) = until(lambda: about("shop.billing", "billing"), "the program's own line")
    (taken,) = [
        line
        for line in about("gapless.worker", "acquired")
        if line["partition"] == said["partition"]
    ]
    where = {"group": "billing", "topic": "orders", "partition": said["partition"]}
    assert where.items() <= said.items()
    assert (said["offset"], said["epoch"], said["level"]) == (1, taken["epoch"], "info")
    assert where.items() <= taken.items(), "gapless's own lines say it, too"
    assert "offset" not in taken
    joined = about("gapless.supervisor", "joined")[0]
    assert not set(FIELDS) & set(joined)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_who_sets_up_logging_himself(dsn: str, conn: Connection, delivery: Any) -> None:
    """Also on the threads of an at-least-once handler, and while a batch is iterated over."""
    has_turn(None)  # a test before this one may have let a worker take a turn in this process
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(LogFields())
    handler.setFormatter(JsonFormatter())
    log = logging.getLogger("elsewhere")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False

    def note(unit: gapless.Unit, *_: object) -> None:
        log.info("here", extra={"epoch": 7})

    ensure_topic(conn, "orders", partitions=1)
    gapless.publish(conn, "orders", 1)
    gapless.publish(conn, "orders", 2)
    handle = gapless.handler(topic="orders", group="billing", delivery=delivery)(note)
    drain(dsn, handle)
    log.info("outside")
    *inside, outside = map(json.loads, stream.getvalue().splitlines())
    assert [line["offset"] for line in inside] == [1, 2]
    assert {line["group"] for line in inside} == {"billing"}
    assert {line["epoch"] for line in inside} == {7}, "what the record says itself stays"
    assert not set(FIELDS) & set(outside)
    log.handlers = []


def test_a_line_of_text_drives_no_terminal() -> None:
    hostile = "\x1b[31m\x9b\r\u202e\ud800 é 漢\n  next line"
    record = logging.makeLogRecord({"msg": hostile})
    shown = TextFormatter().format(record)
    assert shown == r"\x1b[31m\x9b\r\u202e\ud800 é 漢" + "\n  next line"
