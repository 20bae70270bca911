"""A gateway behind PgBouncer, where nobody else sequences."""

import json
from pathlib import Path

import pytest
from psycopg import Connection

from features.gateway.together import KINDS, answer, in_flight, transactions
from gapless import ops
from gapless.log.topics import ensure_topic
from support.gateways import Serve, Served
from support.long import long_but
from support.poolers import PGBOUNCER, pooler, traces

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")

EVENTS = 3


@pytest.mark.parametrize("mode", long_but(("transaction", "session"), "transaction"))
def test_a_gateway_alone_serves_all_that_it_has(
    dsn: str, conn: Connection, serve: Serve, tmp_path: Path, mode: str
) -> None:
    """It gives the offsets, and says so; streams, queue clients and members get what is published."""
    topic = "orders"
    ensure_topic(conn, topic, partitions=1)
    ops.create_group(conn, f"q-{topic}", topic, mode="queue")
    ops.create_group(conn, f"g-{topic}", topic)
    with pooler(dsn, tmp_path, mode) as pooled:
        gateway = serve(GAPLESS_DSN=pooled)
        serves_all(gateway, topic)
        sent = [KINDS[0](n).sent(topic) for n in range(12)]
        with in_flight(gateway, conn, sent) as socks:
            assert {answer(sock)[0] for sock in socks} == {202}
        assert transactions(conn, topic) < EVENTS + len(sent)
        assert mode == "session" or not traces(pooled)


def serves_all(gateway: Served, topic: str) -> None:
    path = f"/v1/topics/{topic}/stream"
    with gateway.client.stream("GET", path, params={"from": "earliest"}) as answer:
        told = (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))
        for n in range(EVENTS):
            gateway.publish(n, topic=topic)
            assert next(told)["payload"] == n
    assert "this gateway gives the offsets until one does" in gateway.log()
    wanted = {"topic": topic, "max_events": 100}
    taken = gateway.post(f"/v1/groups/q-{topic}/take", json=wanted).json()["events"]
    assert len(taken) == EVENTS
    member = gateway.post(f"/v1/groups/g-{topic}/members", json={"topic": topic}).json()
    polled = gateway.post(
        f"/v1/groups/g-{topic}/members/{member['member_id']}/poll",
        headers={"Gapless-Token": member["token"]},
        json={},
    )
    assert len(polled.json()["events"]) == EVENTS
    assert "gapless_database_up 1.0" in gateway.get("/metrics").text
    assert gateway.get("/v1/status").status_code == 200
    warnings = [line for line in gateway.log().splitlines() if "WARNING" in line]
    assert all("no notifications" in line for line in warnings), "and nothing else is wrong"
