"""The body of a request: byte for byte what json.dumps() makes of it, around the payloads."""

import json
from typing import Any

import pytest

from gapless.consume.unit import Source, Unit
from gapless.features.webhooks.body import SEVERAL, body_of
from gapless.keys import Partition
from gapless.log.event import Event, Row

PAYLOAD = '{"name":  "Zoë 😀", "nul": "\\u0000"}'.encode()
NASTY = 'a "quoted"\\\n\t\x00\x7f\u2028 Zoë 😀 </script>'


def _unit(*rows: tuple[str | None, str | None, dict[str, Any] | None, bytes | None]) -> Unit:
    partition = Partition(group_id="webhook-x", topic=NASTY, topic_id=1, partition_id=3)
    made = [
        _row(number, key, kind, None if headers is None else json.dumps(headers).encode(), payload)
        for number, (kind, key, headers, payload) in enumerate(rows)
    ]
    return Unit(Source(partition, lambda _: [], 1000), 17, made)


def _row(
    number: int, key: str | None, kind: str | None, headers: bytes | None, payload: bytes | None
) -> Row:
    made_us = 700_000_000_000_000 + 1500 * number
    return (number, key, kind, payload, headers, None, None, None, 9, made_us, None, None)


def _dumped(unit: Unit, kind: str) -> bytes:
    def opened(named: dict[str, Any]) -> bytes:
        return json.dumps(named).encode()[:-1] + b", "

    def one(event: Event) -> bytes:
        named = {
            "offset": event.offset,
            "type": event.event_type,
            "key": event.key,
            "timestamp": event.created_ts.isoformat(),
            "headers": event.headers,
        }
        return opened(named) + b'"data": ' + (event.payload_json or b"null") + b"}"

    named = {
        "type": kind,
        "timestamp": next(iter(unit)).created_ts.isoformat(),
        "topic": unit.topic,
        "partition": unit.partition,
        "transaction_id": str(unit.transaction_id),
    }
    return opened(named) + b'"events": [' + b",".join(one(event) for event in unit) + b"]}"


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        (_unit(("order.made", "7", None, PAYLOAD)), "order.made"),
        (_unit((NASTY, NASTY, {NASTY: [NASTY, 1.5, None, {"a": {}}]}, PAYLOAD)), NASTY),
        (_unit((None, None, {}, None)), ""),
        (_unit(("a", "", {"n": 10**30}, b"1"), ("b", None, None, b"[]")), SEVERAL),
    ],
)
def test_it_is_what_json_makes_of_it(unit: Unit, kind: str) -> None:
    body = body_of(unit)
    assert body == _dumped(unit, kind)
    assert json.loads(body)["type"] == kind
    assert body.isascii() or PAYLOAD in body
