"""Which statement stores which events, with what, and how what was refused is said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from gapless.errors import PublishError
from gapless.log.cause import Cause, Handling, current_origin, handling, parse_cause, told_of
from gapless.log.event import (
    Event,
    MatchedEvent,
    MatchedSubscription,
    NewEvent,
    Unasked,
    transaction_uuid,
)
from gapless.log.foreign import Trouble
from gapless.log.given import given
from gapless.log.publish import publish_error
from gapless.log.read import as_array, in_order
from gapless.log.statements import copied, row_of, statement_of, told_before, transaction_id

TOLD = {"cause": "g/t/0@1", "correlation": None}
OTHER = UUID(int=9)
SUBSCRIPTION = MatchedSubscription(1, "s", {})


def plain(count: int, **last: Any) -> list[NewEvent]:
    events = [NewEvent(payload=n) for n in range(count)]
    return events if not last else [*events[:-1], NewEvent(payload=count - 1, **last)]


@pytest.mark.parametrize("told", [{}, TOLD], ids=["alone", "told"])
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "publish_one"),
        ({"key": "k", "event_type": "t", "headers": {"a": 1}}, "publish_one"),
        ({"dedupe_key": "d"}, "publish_once"),
        ({"dedupe_key": "d", "deliver_in": 1}, "publish_each"),
        ({"deliver_in": 1}, "publish_each"),
        ({"to_group": "g"}, "publish_each"),
    ],
)
def test_one_event(told: dict[str, Any], fields: dict[str, Any], name: str) -> None:
    used, params, rest = statement_of("t", [NewEvent(payload=1, **fields)], told)
    is_plain = name == "publish_one"
    assert used == (f"{name}_from" if told and is_plain else name)
    assert params["topic"] == "t"
    assert params["payload"] == (["1"] if name == "publish_each" else "1")
    assert list(rest) == []
    assert (params.get("cause"), "correlation" in params) == (
        ("g/t/0@1", True) if told and is_plain else (None, False)
    )
    if name == "publish_once":
        assert params["dedupe_key"] == "d"
    if is_plain:
        assert params.get("key") == fields.get("key")


@pytest.mark.parametrize("told", [{}, TOLD], ids=["alone", "told"])
@pytest.mark.parametrize(
    ("count", "last", "name"),
    [
        (0, {}, "publish_some"),
        (1, {}, "publish_some"),
        (200, {}, "publish_some"),
        (200, {"dedupe_key": "d"}, "publish_each"),
        (201, {}, "publish_many"),
        (450, {"dedupe_key": "d"}, "publish_many"),
    ],
)
def test_several_events(told: dict[str, Any], count: int, last: dict[str, Any], name: str) -> None:
    events = plain(count, **last)
    used, params, rest = statement_of("t", iter(events), told)
    is_plain = name == "publish_some"
    assert used == (f"{name}_from" if told and is_plain else name)
    assert list(rest) == (events if name == "publish_many" else [])
    assert params.get("payload") == (
        None if name == "publish_many" or not count else [str(n) for n in range(count)]
    )
    assert params["topic"] == "t"
    assert "correlation" not in params or (told and is_plain)


@pytest.mark.parametrize(
    ("own", "caused", "expected"),
    [
        (None, None, None),
        (None, OTHER, OTHER),
        (UUID(int=1), None, str(UUID(int=1))),
        (UUID(int=1), OTHER, str(UUID(int=1))),
    ],
)
def test_what_is_copied_has_the_units_id_unless_it_has_its_own(
    own: Any, caused: Any, expected: Any
) -> None:
    line = copied(7, caused, NewEvent(payload=1, key="k", transaction_id=own))
    assert line == (7, "1", "k", None, None, None, None, expected)


def test_rows() -> None:
    assert transaction_id((str(OTHER), 1)) == OTHER
    assert transaction_id((OTHER,)) == OTHER
    assert told_before(("c", "d")) == {"cause": "c", "correlation": "d"}
    assert row_of((1,)) == (1,)
    with pytest.raises(AssertionError):
        row_of(None)


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
    assert told_of(None) == {}
    assert told_of(_Unit(None)) == TOLD
    assert told_of(_Unit(OTHER)) == {"cause": "g/t/0@1", "correlation": str(OTHER)}
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
    return Event("t", 1, 2, tuple(row.values()), 3)  # type: ignore[arg-type]


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


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Trouble(ValueError(), "GL404", "m", None), "m"),
        (Trouble(ValueError(), "GL409", "m", "d"), "m (d)"),
        (Trouble(ValueError(), "P0002", "m", "d"), "m (d)"),
        (Trouble(ValueError(), "22P02", "m", ""), "m"),
        (
            UnicodeEncodeError("utf-8", "a\ud800", 1, 2, "no surrogates"),
            "text that is not valid Unicode cannot be stored: no surrogates",
        ),
        (
            UnicodeEncodeError("latin-1", "a€b", 1, 2, "why"),
            "the session's client_encoding (latin-1) lacks '\\u20ac': set it to UTF8",
        ),
    ],
)
def test_what_the_event_caused_is_said(error: Any, text: str) -> None:
    found = publish_error(error)
    assert type(found) is PublishError
    assert str(found) == text


@pytest.mark.parametrize("state", ["", "GL400", "23505", "40001", "P0001"])
def test_what_the_database_caused_is_as_it_was(state: str) -> None:
    error = ValueError("driver")
    assert publish_error(Trouble(error, state, "m", "d")) is error


@pytest.mark.parametrize(
    ("what", "fields", "count"),
    [
        ("text", {}, None),
        (b"{}", {}, None),
        (bytearray(b"{}"), {}, None),
        ({"a": 1}, {}, None),
        (5, {}, None),
        (None, {}, None),
        ([], {}, None),
        ([1, 2], {}, None),
        ((), {"key": "k"}, None),
        ([NewEvent(payload=1), 2], {"key": "k"}, None),
        ([NewEvent(payload=1), NewEvent(payload=2)], {}, 2),
        ((NewEvent(payload=1),), {}, 1),
        (iter(()), {}, 0),
        ({1, 2}, {}, 2),
        ({1, 2}, {"key": "k"}, None),
    ],
)
def test_what_is_one_event_and_what_are_many(
    what: Any, fields: dict[str, Any], count: int | None
) -> None:
    events = given(what, fields)
    if count is None:
        assert events == [NewEvent(payload=what, **fields)]
    else:
        assert not isinstance(events, list)
        assert len(list(events)) == count


@pytest.mark.parametrize("what", [[NewEvent(payload=1)], iter([NewEvent(payload=1)])])
def test_many_events_have_their_own_fields(what: Iterable[NewEvent]) -> None:
    with pytest.raises(PublishError) as caught:
        given(what, {"key": "k", "user_id": "u"})
    assert str(caught.value) == "key, user_id: with many events, set it on each NewEvent"


def test_one_event_has_its_own_fields() -> None:
    event = NewEvent(payload=1)
    assert given(event, {})[0] is event  # type: ignore[index]
    with pytest.raises(PublishError) as caught:
        given(event, {"key": "k", "user_id": "u"})
    assert str(caught.value) == "key, user_id: set it on the NewEvent"
    with pytest.raises(PublishError) as caught:
        given(1, {"kee": "k", "key": "k", "x": 1})
    assert str(caught.value) == (
        "publish() does not know kee, x; it takes key, event_type, headers, host_id, user_id, "
        "transaction_id, dedupe_key, deliver_at, deliver_in, to_group, to_subscription"
    )


def test_rows_are_put_in_order() -> None:
    rows: list[Any] = [(1, "a"), (2, "b"), (3, "c")]
    assert in_order(rows, [1, 2, 3]) is rows
    assert in_order(rows, [3, 1]) == [(3, "c"), (1, "a")]
    assert as_array([1, 20, 3]) == "{1, 20, 3}"
    assert as_array((5,)) == "{5}"
