"""A log with something of everything, for pages that show it."""

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.db.connect import connect
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.testing import drain
from support.gateways import Client, Open

HOSTILE = "<img src=x onerror=window.hit=1>'\"&lt;\u202e"
LONG = '</script><script>window.hit=1</script><a href="javascript:window.hit=1">' + "w" * 200


def fill(conn: Connection, dsn: str) -> None:
    """Give each page something to show, with names, texts and errors that would like to be markup."""
    ops.create_topic(conn, "orders", partitions=2)
    event = NewEvent(
        payload={HOSTILE: LONG, "w" * 300: {"x": "y" * 3000}},
        key=HOSTILE + "k" * 200,
        event_type=HOSTILE + "t" * 150,
        headers={HOSTILE: LONG, "h" * 99: "v" * 999},
    )
    publish(conn, "orders", [event, event])
    gapless.publish(conn, "orders", {HOSTILE: LONG}, key=HOSTILE, deliver_in=3600)

    @gapless.handler(topic="orders", group="hostile")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        raise ValueError(LONG)

    drain(dsn, refuse)
    sequence(conn)
    ops.create_group(conn, "letters", "orders", mode="queue")
    ops.create_group(conn, "billing", "orders")
    ops.pause(conn, ops.GroupPlace(group="billing", topic="orders"), reason=LONG)
    ops.add_schedule(
        conn,
        ops.Schedule(name="nightly", topic="orders", key=HOSTILE, payload="1", cron="0 3 * * *"),
    )
    for shared in (True, False):
        ops.add_webhook(
            conn,
            f"ann-{shared}".lower(),
            "orders",
            f"https://a.example/{'w' * 99}",
            secrets=["env:HOOK"],
            shared=shared,
        )
    ops.add_schema(conn, "orders", '{"type": "object"}')
    ops.create_key(conn, HOSTILE, ["read:*"])


@pytest.fixture
def filled(module_dsn: str, open_gateway: Open) -> Client:
    """A gateway of a database with something of everything, one for the file."""
    with connect(module_dsn, role="test") as conn:
        if not ops.list_topics(conn):
            fill(conn, module_dsn)
    return open_gateway(dsn=module_dsn, operates=True)
