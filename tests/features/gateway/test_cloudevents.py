"""CloudEvents 1.0 in the three forms of HTTP, as the cloudevents package writes them."""

import json
from datetime import UTC, datetime
from typing import Any

from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from psycopg import Connection

from support.gateways import EVENTS, Client, problem

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


def test_attributes_of_all_kinds(gateway: Client, conn: Connection) -> None:
    """Values that RFC 3986, RFC 3339 and RFC 2046 allow are taken as they are."""
    good: list[dict[str, str]] = [
        *({"source": each} for each in (
            "s", "/", "?q", "#", "//h:80/a", "urn:event:a:b", "mailto:x@y.z", "a/b:c", "https://[2001:db8::1]:80/?a=b?c#d",
            "https://u:p@[::1]", "%C3%A4", "https://github.com/cloudevents/spec/pull#(1)",
        )),
        *({"time": each} for each in (
            "2016-12-31T23:59:60Z", "2026-03-01t12:00:00z", "2026-03-01T12:00:00.123456789123+14:00", "2026-03-01T12:00:00-00:00",
        )),
        *({"datacontenttype": each} for each in ('text/plain; charset="utf-8"', "image/svg+xml;a=b", "text/json;")),
        {"dataschema": "urn:x"}, {"subject": " \u00e4 \U0001f600"}, {"partitionkey": "0"},
    ]  # fmt: skip
    batch = [{**ATTRIBUTES, "id": str(n), **each} for n, each in enumerate(good)]
    done = gateway.post(EVENTS, content=json.dumps(batch), headers=BATCH)
    assert done.status_code == 202, done.text
    for given, (_, _, _, headers) in zip(good, conn.execute(STORED).fetchall(), strict=True):
        for name, value in given.items():
            assert headers[f"ce_{name}"] == value


def test_the_media_type_says_which_form_it_is(gateway: Client, conn: Connection) -> None:
    """Attributes may be in headers as well; a batch may be empty; a format may be unknown."""
    ours = {f"ce-{name}": "other" for name in ("id", "source", "type")} | {"ce-specversion": "1.0"}
    for kind, body, status in (
        (ONE, ATTRIBUTES, 202),
        (BATCH, [{**ATTRIBUTES, "id": "2"}], 202),
        (BATCH, [], 202),
        ({"Content-Type": "application/cloudevents+avro"}, ATTRIBUTES, 415),
        ({"Content-Type": "application/json"}, [], 400),
    ):
        headers = kind if body == [] else {**ours, **kind}
        done = gateway.post(EVENTS, content=json.dumps(body), headers=headers)
        assert done.status_code == status, done.text
    assert [row[2] for row in conn.execute(STORED).fetchall()] == ["order.created"] * 2
    said = gateway.post(EVENTS, content="[]", headers=BATCH).json()
    assert (said["events"], said["transaction_id"]) == (0, None)
    problem(gateway.post("/v1/topics/no/events", content="[]", headers=BATCH), 404)


def test_headers_are_decoded_as_the_binding_says(gateway: Client, conn: Connection) -> None:
    """First quotes, then percents, once; what is no UTF-8 is refused."""
    head = {"ce-id": "1", "ce-source": "s", "ce-type": "t", "ce-specversion": "1.0"}
    taken = {
        b'"a b"': "a b", b'"a \\"b\\" \\\\ %22"': 'a "b" \\ "', b"Euro%20%E2%82%AC%20%F0%9f%98%80": "Euro € \U0001f600",
        b"%2541": "%41", b'%22a%22': '"a"', b"a\"b": 'a"b', "ä".encode(): "ä", b"a (b)": "a (b)", b"100%": "100%",
    }  # fmt: skip
    for number, value in enumerate(taken):
        headers = {**head, "ce-id": str(number), "ce-subject": value}
        done = gateway.post(EVENTS, content=b"", headers=headers)
        assert done.status_code == 202, (value, done.text)
    assert [row[1] for row in conn.execute(STORED).fetchall()] == list(taken.values())
    for name, bad in (
        ("ce-subject", b"%C0%A0"), ("ce-subject", b"%ff"), ("ce-subject", b"\xff"), ("ce-subject", b""), ("ce-subject", b'""'),
        ("ce-subject", b"a%00"), ("ce-time", b"soon"), ("ce-source", b"a%20b"), ("ce-data", b"1"), ("ce-datacontenttype", b"a/b"),
        ("ce-a_b", b"1"),
    ):  # fmt: skip
        problem(gateway.post(EVENTS, content=b"", headers={**head, name: bad}), 400)


NO_CLOUDEVENTS: list[tuple[Any, str]] = [
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
    ({**ATTRIBUTES, "subject": ""}, "'subject'"),
    ({**ATTRIBUTES, "subject": 5}, "'subject'"),
    ({**ATTRIBUTES, "partitionkey": ""}, "'partitionkey'"),
    ({**ATTRIBUTES, "id": 17}, "'id'"),
    ({**ATTRIBUTES, "more": "a\u007f"}, "U+007F"),
    ({**ATTRIBUTES, "more": "a\uffff"}, "U+FFFF"),
    ({**ATTRIBUTES, "datacontenttype": "json"}, "'datacontenttype'"),
    ({**ATTRIBUTES, "data_base64": "AA"}, "base64"),
    ({**ATTRIBUTES, "data_base64": "A-_A"}, "base64"),
    ({**ATTRIBUTES, "data_base64": "AA==\n"}, "base64"),
    *(
        ({**ATTRIBUTES, "time": each}, "'time'")
        for each in (
            "",
            "now",
            5,
            "2026-03-01",
            "2026-03-01T12:00:00",
            "2026-02-30T12:00:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T12:00:00+24:00",
            "2026-03-01T12:00:00+01:60",
            "2026-03-01 12:00:00Z",
            "20260301T120000Z",
            "2026-03-01T12:00:00.Z",
            "٢026-03-01T12:00:00Z",
        )
    ),
    *(
        ({**ATTRIBUTES, "source": each}, "'source'")
        for each in (
            "a b",
            "ä",
            "1:b",
            "a#b#c",
            "%zz",
            "a[b]",
            "<x>",
            "http://[::1",
            '"s"',
            "a\\b",
        )
    ),
    *(({**ATTRIBUTES, "dataschema": each}, "'dataschema'") for each in ("", "/s.json", "x y:z", 1)),
]


def test_what_is_no_cloudevent_is_refused(gateway: Client, conn: Connection) -> None:
    for body, words in NO_CLOUDEVENTS:
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
