"""What an event says of its row, whom it is for, and what it came of."""

from typing import Any
from uuid import UUID

import pytest

from gapless.log.cause import Cause, Handling, attribution_of, current_origin, handling, parse_cause
from gapless.log.event import Event, MatchedEvent, MatchedSubscription, Unasked, transaction_uuid

OTHER = UUID(int=9)
SUBSCRIPTION = MatchedSubscription(1, "s", {})
TOLD = {"cause": "g/t/0@1", "correlation": None}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("g/t/3@17", Cause("g", "t", 3, 17)),
        ("g/t/3@17..19", Cause("g", "t", 3, 17)),
        ("g/t/3@17~2", Cause("g", "t", 3, 17)),
        ("g/t/3@17..19~2", Cause("g", "t", 3, 17)),
        ("a/b\nc/t.x-y_z/000000003@017", Cause("a/b\nc", "t.x-y_z", 3, 17)),
        ("g/t/3@17 ", None),
        ("g/t/1234567890@17", None),
        ("/t/3@17", None),
        ("", None),
        (None, None),
    ],
)
def test_a_cause_is_the_first_event_of_a_unit(text: str | None, cause: Cause | None) -> None:
    assert parse_cause(text) == cause


class _Unit:
    def __init__(self, correlation: UUID | None) -> None:
        self.idempotency_key = "g/t/0@1"
        self.correlation = correlation


def test_what_is_told_of_an_origin() -> None:
    assert attribution_of(None) == {}
    assert attribution_of(_Unit(None)) == TOLD
    assert attribution_of(_Unit(OTHER)) == {"cause": "g/t/0@1", "correlation": str(OTHER)}
    assert current_origin() is None
    unit = _Unit(None)
    token = handling.set(Handling(unit))
    try:
        assert current_origin() is unit
    finally:
        handling.reset(token)


ROW: Any = (
    5, "k", "paid", b'{"a": 1}', b'{"h": 2}', "host", "user", None, 0x123456789ABCDEF, 1_500_000,
    "g/t/0@1", None,
)  # fmt: skip


def event_of(**changed: Any) -> Event[Any]:
    names = (
        "id key event_type payload headers host_id user_id transaction_id xid ts cause correlation"
    )
    row = dict(zip(names.split(), ROW, strict=True)) | changed
    return Event("t", 1, 2, tuple(row.values()), 3)


def test_an_event_has_what_its_row_has() -> None:
    event = event_of()
    assert (event.topic, event.partition, event.offset, event.id) == ("t", 1, 2, 5)
    assert (event.key, event.event_type, event.host_id, event.user_id) == (
        "k", "paid", "host", "user",
    )  # fmt: skip
    assert (event.payload, event.payload_json, event.headers) == ({"a": 1}, b'{"a": 1}', {"h": 2})
    assert event.payload is event.payload
    assert event.headers is event.headers
    assert event.cause == Cause("g", "t", 0, 1)
    assert event.created_ts.isoformat() == "2000-01-01T00:00:01.500000+00:00"
    assert str(event.transaction_id) == "00000003-0000-8000-8123-456789abcdef"
    assert event.correlation == event.transaction_id
    assert repr(event) == "Event(t/1@2 key='k' event_type='paid')"
    assert event_of(transaction_id=OTHER).transaction_id == OTHER
    assert event_of(transaction_id=OTHER).correlation == OTHER
    assert event_of(correlation=OTHER).correlation == OTHER


def test_an_event_without_them() -> None:
    event = event_of(payload=None, headers=None, cause=None)
    assert (event.payload, event.payload_json, event.headers, event.cause) == (None, None, {}, None)
    assert (event.to_group, event.to_subscription) == (None, None)
    event.decode_payload(lambda raw: raw)
    assert event.payload == b"null"
    event = event_of()
    event.decode_payload(lambda raw: raw)
    assert event.payload == b'{"a": 1}'
    assert event_of(payload=b"null").payload is None


@pytest.mark.parametrize("headers", [b'"gapless-to-group"', b"[1]", b"null", b"5"])
def test_headers_that_are_no_object_are_none(headers: bytes) -> None:
    """A plain INSERT may have stored them; nobody's handler fails for that."""
    event = event_of(headers=headers)
    assert (event.headers, event.to_group, event.to_subscription) == ({}, None, None)


@pytest.mark.parametrize(
    ("headers", "to"),
    [
        (b'{"gapless-to-group": "g"}', ("g", None)),
        (b'{"gapless-to-group": "g", "gapless-to-subscription": "s"}', ("g", "s")),
        (b'{"gapless-to-subscription": "s"}', (None, None)),
        (b'{"a": "gapless-to-group", "gapless-to-subscription": "s"}', (None, None)),
        (b'{"gapless-to-group": null, "gapless-to-subscription": "s"}', (None, None)),
        (b'{"gapless-to-group": 5, "gapless-to-subscription": 6}', ("5", "6")),
    ],
)
def test_whom_an_event_is_for(headers: bytes, to: tuple[str | None, str | None]) -> None:
    event = event_of(headers=headers)
    assert (event.to_group, event.to_subscription) == to


@pytest.mark.parametrize("timeline", [1, 2])
def test_events_of_other_kinds_have_it_too(timeline: int) -> None:
    unasked = Unasked[Any]("t", 1, 2, ROW, timeline, "why")
    matched = MatchedEvent[Any]("t", 1, 2, ROW, timeline, (SUBSCRIPTION,))
    assert unasked.filter_error == "why"
    assert matched.subscriptions == (SUBSCRIPTION,)
    for event in (unasked, matched):
        assert (event.topic, event.partition, event.offset, event.id) == ("t", 1, 2, 5)
        assert event.transaction_id == transaction_uuid(ROW[8], timeline)


@pytest.mark.parametrize(
    ("xid", "timeline", "text"),
    [
        (0, 1, "00000000-0000-8000-8000-000000000000"),
        (0xF23456789ABCDEF, 1, "00000000-0000-8000-8f23-456789abcdef"),
        (1, 2, "00000002-0000-8000-8000-000000000001"),
        (1, 0xFFFFFFFF, "ffffffff-0000-8000-8000-000000000001"),
    ],
)
def test_the_id_that_an_xid_makes(xid: int, timeline: int, text: str) -> None:
    assert str(transaction_uuid(xid, timeline)) == text
    if timeline == 1:
        assert str(transaction_uuid(xid)) == text
