"""Handlers that write into a ledger which schema they work in; the ledger refuses a second time."""

import json
import os
from typing import Any

from psycopg import Connection

import gapless
from gapless.db.schema import schema

MAKE = """
create table did (
  installation text, handler text, partition_id int, c_offset bigint, payload json, pid int,
  unique (installation, handler, partition_id, c_offset)
);
create table stock (id int primary key, n int)
"""
WRITE = "insert into did values (%s, %s, %s, %s, %s::json, %s)"
OPTIONS: dict[str, Any] = {"on_failure": "retry", "retry_delays_s": [0.1]}


def note(conn: Connection[Any], handler: str, unit: gapless.Unit) -> None:
    """Write down the events of a unit; one whose payload is "bad" fails each time."""
    for event in unit:
        values = [schema(), handler, event.partition, event.offset]
        conn.execute(WRITE, [*values, json.dumps(event.payload), os.getpid()])
        if event.payload == "bad":
            raise ValueError("as it says")


@gapless.handler(topic="orders", group="billing", **OPTIONS)
def bill(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Publish something for each unit, too: a chain across topics."""
    note(conn, "bill", unit)
    gapless.publish(conn, "mails", "of an order", key="of mails")


@gapless.handler(topic="mails", group="sender", mode="queue")
def send(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """A job of a queue."""
    note(conn, "send", unit)


@gapless.handler(topic="stock.changes", group="watcher", where='$.op == "insert"')
def watch(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """What a captured table publishes, some of it."""
    note(conn, "watch", unit)


@gapless.handler(topic="pulses", group="beat")
def beat(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """What a schedule publishes."""
    note(conn, "beat", unit)


@gapless.handler(topic="orders", group="crossing", **OPTIONS)
def cross(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Publish to the installation `audit` as well, by SQL."""
    note(conn, "cross", unit)
    for event in unit:
        conn.execute("select audit.publish('mails', %s::json, 'k')", [json.dumps(event.payload)])
