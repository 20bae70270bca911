"""CloudEvents 1.0 in the three forms of HTTP, as the cloudevents package writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from psycopg import Connection

from stage.gateway.conftest import EVENTS, Client, problem

ATTRIBUTES = {
    "id": "17",
    "source": "/shop/1",
    "type": "order.created",
    "specversion": "1.0",
    "subject": "AA",
    "datacontenttype": "application/json",
    "time": "2026-03-01T12:00:00Z",
}
STORED = "select payload::text, key, event_type, headers from gapless.outbox_message_t order by id"
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
ONE = {"Content-Type": "application/cloudevents+json"}


def _made(**more: Any) -> CloudEvent:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return CloudEvent(attributes={**ATTRIBUTES, "time": moment, **more}, data={"total": 5})


def test_the_package_s_own_requests_are_understood(gateway: Client, conn: Connection) -> None:
    """The oracle: what another implementation sends is what we store, in both forms the same."""
    for number, write in enumerate((to_structured_event, to_binary_event)):
        message = write(_made(id=str(number), subject="Ä B", tenant="t1"))
        done = gateway.post(EVENTS, content=message.body, headers=dict(message.headers))
        assert done.status_code == 202, done.text
    (first, second) = conn.execute(STORED).fetchall()
    assert json.loads(first[0]) == json.loads(second[0]) == {"total": 5}
    assert first[1:3] == second[1:3] == ("Ä B", "order.created")
    for row in (first, second):
        row[3].pop("ce_id")
    assert first[3] == second[3]
    assert first[3] == {
        "ce_source": "/shop/1",
        "ce_type": "order.created",
        "ce_specversion": "1.0",
        "ce_subject": "Ä B",
        "ce_tenant": "t1",
        "ce_datacontenttype": "application/json",
        "ce_time": "2026-03-01T12:00:00Z",
    }


def test_source_and_id_say_which_event_it_is(gateway: Client, conn: Connection) -> None:
    batch = [
        {**ATTRIBUTES, "data": 1},
        {**ATTRIBUTES, "data": 2},
        {**ATTRIBUTES, "source": "/shop/2", "partitionkey": "p"},
        {**ATTRIBUTES, "id": "x" * 600},
        {**ATTRIBUTES, "id": "x" * 600},
    ]
    said = gateway.post(EVENTS, content=json.dumps(batch), headers=BATCH).json()
    assert (said["events"], said["duplicates"]) == (5, 2)
    rows = conn.execute(STORED).fetchall()
    assert [(row[0], row[1]) for row in rows] == [("1", "AA"), ("null", "p"), ("null", "AA")]


def test_data_that_are_no_json(gateway: Client, conn: Connection) -> None:
    head = {"ce-id": "1", "ce-source": "s", "ce-type": "t", "ce-specversion": "1.0"}
    for number, (media_type, body) in enumerate(
        [("text/plain", b"caf\xc3\xa9"), ("image/png", b"\x89PNG"), ("application/json", b"[1.10]")]
    ):
        headers = {**head, "ce-id": str(number), "Content-Type": media_type}
        assert gateway.post(EVENTS, content=body, headers=headers).status_code == 202
    one = {**ATTRIBUTES, "id": "9", "data_base64": "iVBORw=="}
    assert gateway.post(EVENTS, content=json.dumps(one), headers=ONE).status_code == 202
    rows = conn.execute(STORED).fetchall()
    assert [row[0] for row in rows] == ['"café"', '"iVBORw=="', "[1.10]", '"iVBORw=="']
    assert [row[3].get("ce_data_base64") for row in rows] == [None, True, None, True]


def test_what_is_no_cloudevent_is_refused(gateway: Client, conn: Connection) -> None:
    bad: list[tuple[Any, str]] = [
        ({**ATTRIBUTES, "id": ""}, "'id'"),
        ({k: v for k, v in ATTRIBUTES.items() if k != "source"}, "'source'"),
        ({**ATTRIBUTES, "specversion": "0.3"}, "0.3"),
        ({**ATTRIBUTES, "Upper": "1"}, "'Upper'"),
        ({**ATTRIBUTES, "more": {}}, "'more'"),
        ({**ATTRIBUTES, "more": 1.5}, "'more'"),
        ({**ATTRIBUTES, "more": 2**31}, "'more'"),
        ({**ATTRIBUTES, "more": "\0"}, "NUL"),
        ({**ATTRIBUTES, "data": 1, "data_base64": "AA"}, "one of the two"),
        ([1], "a CloudEvent is a JSON object"),
    ]
    for body, words in bad:
        said = problem(gateway.post(EVENTS, content=json.dumps(body), headers=ONE), 400)
        assert words in said["detail"], said
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "s",
        "Content-Type": "application/json",
    }
    problem(gateway.post(EVENTS, content=b"1", headers=headers), 400)
    headers["ce-type"] = "t"
    problem(gateway.post(EVENTS, content=b"{", headers=headers), 400)
    problem(gateway.post(EVENTS, content=b"1", headers={**headers, "Idempotency-Key": "k"}), 400)
    assert conn.execute(STORED).fetchall() == []
