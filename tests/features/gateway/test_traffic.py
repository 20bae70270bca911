"""Whatever a gateway is asked, there is a line for it in the access log, and it is counted."""

import json

import pytest
from psycopg import Connection

from gapless import ops
from gapless.features.gateway import connection
from gapless.log.topics import Topic
from gapless.logs import JsonFormatter
from support.fleet import until
from support.gateways import EVENTS, Client, Open

ROUTE = "/v1/topics/{topic}/events"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture):
    """The lines so far, as JSON."""
    caplog.set_level("INFO", "gapless.gateway.access")
    form = JsonFormatter().format
    return lambda: [
        json.loads(form(each)) for each in caplog.records if each.name == "gapless.gateway.access"
    ]


STATUSES = [202, 401, 403, 400, 429, 200, 404, 405, 200]


def _require_counts(gateway: Client, who: dict[str, str]) -> None:
    found = gateway.get("/metrics", headers=who).text
    for method, route, status, count in (
        ("POST", ROUTE, 202, 2), ("POST", ROUTE, 403, 1), ("POST", ROUTE, 429, 1), ("GET", "", 404, 1),
        ("other", "", 405, 1), ("other", "", 400, 1), ("other", "", 408, 1),
    ):  # fmt: skip
        labels = f'method="{method}",route="{route}",status="{status}"'
        assert f"gapless_gateway_requests_total{{{labels}}} {count:.1f}" in found.replace(
            f'route="{route}",method="{method}"', f'method="{method}",route="{route}"'
        )
    assert "gapless_gateway_streams 0.0" in found
    with gateway.client.stream("GET", "/v1/topics/orders/stream", headers=who) as stream:
        begun = stream.iter_lines()
        next(begun)
        found = gateway.get("/metrics", headers=who).text
        assert "gapless_gateway_streams 1.0" in found
        assert "gapless_gateway_feeds 1.0" in found


def test_each_request_has_a_line_and_a_count(
    open_gateway: Open, orders: Topic, conn: Connection, lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_S_MAX", 0.2)
    gateway = open_gateway(asks_keys=True, connections_per_address=3)
    shop = ops.create_key(conn, "shop", ["publish:orders", "read:*"])
    slow = ops.create_key(conn, "slow", ["publish:orders"], requests_s=0.001)
    who, whose = {"Authorization": f"Bearer {shop.key}"}, f"key {shop.key_id} (shop)"
    rated = {"Authorization": f"Bearer {slow.key}"}
    gateway.post(EVENTS, json={"payload": 1}, headers=rated)
    asked = [
        (gateway.post(EVENTS, json={"payload": 1}, headers=who), ROUTE, whose),
        (gateway.post(EVENTS, json={"payload": 1}), ROUTE, None),
        (gateway.post("/v1/topics/other/events", json={}, headers=who), ROUTE, whose),
        (gateway.post(EVENTS, json={"load": "se\ncret"}, headers=who), ROUTE, whose),
        (gateway.post(EVENTS, json={"payload": 1}, headers=rated), ROUTE, f"key {slow.key_id} (slow)"),
        (gateway.get(EVENTS, params={"partition": 0, "from": 77}, headers=who), ROUTE, whose),
        (gateway.get("/nothing%1b%5b2J", headers=who), "", None),
        (gateway.client.put("/healthz"), "", None),
        (gateway.client.head("/healthz"), "/healthz", None),
    ]  # fmt: skip
    assert [each.status_code for each, _, _ in asked] == STATUSES
    raw = [gateway.raw(b"\x00\r\n\r\n"), gateway.raw(b"GET / HT")]
    until(lambda: len(lines()) == len(asked) + 3, "all have a line", within=lines)
    for line, (answer, route, caller) in zip(lines()[1:], asked, strict=False):
        assert (line["status"], line["route"]) == (answer.status_code, route), line
        assert line["caller"] == (caller or "")
        assert line["client"] == "127.0.0.1"
        assert line["detail"] == (answer.json()["detail"] if line["status"] >= 400 else "")
        assert line["level"] == ("warning" if line["status"] >= 400 else "info")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"]
        assert "strict-transport-security" not in answer.headers, "it speaks no TLS"
    for found, status in zip(raw, (400, 408), strict=True):
        head, _, body = found.partition(b"\r\n\r\n")
        assert json.loads(body)["status"] == status
        assert {b"x-content-type-options: nosniff", b"content-type: application/problem+json"} <= {
            *head.split(b"\r\n")
        }
    assert sorted(line["status"] for line in lines()[-2:]) == [400, 408]
    text = json.dumps(lines())
    assert shop.key not in text
    assert "77" not in json.dumps([line["path"] for line in lines()])
    _require_counts(gateway, who)
    until(lambda: lines()[-1]["path"].endswith("/stream"), "a stream has one when it ends")
