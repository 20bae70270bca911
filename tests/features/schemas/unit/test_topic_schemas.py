"""What is known of a topic's schemas: by which one an event is checked, what is said of it, and for how long it is known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless.errors import InvalidPayloadError, PublishError, UncheckedError
from gapless.features.schemas import stored as schemas
from gapless.features.schemas.stored import (
    SchemaVersion,
    TopicSchemas,
    asked,
    fresh,
    learned,
    remember,
)
from gapless.log.event import NewEvent

NUMBER, TEXT, NOTHING = '{"type": "integer"}', '{"type": "string"}', "false"
UNREADABLE = '{"type": 5}'
PLACE = ("host", 5432, "db", "orders")


def versions(event_type: str, *texts: str) -> tuple[SchemaVersion, ...]:
    """The newest first."""
    count = len(texts)
    return tuple(SchemaVersion(event_type, count - n, text) for n, text in enumerate(texts))


def known(seen_s: float = 0.0, **texts: Any) -> TopicSchemas:
    by_type = {
        "*" if name == "any" else name: versions("*" if name == "any" else name, *each)
        for name, each in texts.items()
    }
    return TopicSchemas(7, by_type, seen_s)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 100 s, and nothing is known."""
    monkeypatch.setattr(schemas, "monotonic", lambda: 100.0)
    monkeypatch.setattr(schemas, "_known", {})


@pytest.mark.parametrize(
    ("event_type", "of"),
    [("paid", "paid"), ("sent", "*"), (None, "*"), (5, "5"), ("*", "*")],
)
def test_an_event_is_checked_by_the_schema_of_its_type(event_type: object, of: str) -> None:
    """Else by that of all types; without one it is not."""
    there: dict[str, Any] = {"paid": (NUMBER,), "5": (TEXT,), "any": (NOTHING,)}
    found = known(**there).of(event_type)
    assert found == versions(of, *there["any" if of == "*" else of])
    del there["any"]
    assert known(**there).of(event_type) == (versions(of, *there[of]) if of != "*" else ())


def test_without_a_schema_events_are_what_they_were() -> None:
    one, many = [NewEvent(payload=object())], iter([NewEvent(payload=object())])
    assert known().checked("orders", one) is one
    assert known().checked("orders", many) is many


def test_what_fits_is_stored_as_it_was_checked() -> None:
    event = NewEvent(payload=5, event_type="paid", key="k", headers={"h": 1})
    (found,) = known(paid=(NUMBER, NOTHING)).checked("orders", [event])
    assert found == NewEvent(payload=b"5", event_type="paid", key="k", headers={"h": 1})
    other = NewEvent(payload=5, event_type="sent")
    assert known(paid=(NOTHING,)).checked("orders", [other])[0] is other  # type: ignore[index]


def test_many_are_checked_as_they_go() -> None:
    """Of what is no event publish() says so."""
    strange = object()
    events = iter([NewEvent(payload=1), strange, NewEvent(payload="x"), NewEvent(payload=2)])
    checked: Any = known(any=(NUMBER,)).checked("orders", events)
    assert not isinstance(checked, list)
    assert next(checked) == NewEvent(payload=b"1")
    assert next(checked) is strange
    with pytest.raises(InvalidPayloadError) as caught:
        next(checked)
    assert caught.value.event == 2
    assert str(caught.value).startswith("event 3 of many: the payload: ")
    assert list(events) == [NewEvent(payload=2)]


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(InvalidPayloadError) as caught:
        known(paid=(NUMBER, TEXT)).checked("orders", [NewEvent(payload="x", event_type="paid")])
    assert (caught.value.event, caught.value.schema) == (None, "schema 2 of orders/paid")
    assert caught.value.mismatch.pointer == ""
    assert str(caught.value).startswith("the payload: ")
    assert str(caught.value).endswith("(schema 2 of orders/paid)")
    with pytest.raises(UncheckedError, match=r"^schema 1 of orders/\* cannot be checked: "):
        known(any=(UNREADABLE,)).checked("orders", [NewEvent(payload="x")])
    with pytest.raises(PublishError, match=r"^payload is not JSON: "):
        known(any=(NUMBER,)).checked("orders", [NewEvent(payload=object())])


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ((), None), ((NUMBER,), None), ((NOTHING,), 1), ((NUMBER, NOTHING), None), ((NOTHING, NUMBER), None),
        ((TEXT, NOTHING), 2), ((UNREADABLE, TEXT), 1), ((TEXT, UNREADABLE), 2), ((UNREADABLE,), None),
        ((UNREADABLE, NUMBER), None), ((TEXT, UNREADABLE, NUMBER), None), ((NOTHING, TEXT, NOTHING), 3),
    ],
)  # fmt: skip
def test_a_payload_is_refused_when_no_version_takes_it(
    texts: tuple[str, ...], says: int | None
) -> None:
    """Then the newest one that can be read says why."""
    found = known(paid=texts).refusal("paid", "5")
    if says is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0].version, found[1].pointer) == (says, "")
        assert found[1] == found[0].read().mismatch("5")


@pytest.mark.parametrize(
    ("age_s", "is_fresh"), [(0.0, True), (4.9, True), (5.0, False), (5.1, False)]
)
def test_what_is_known_is_believed_for_a_while(age_s: float, is_fresh: bool) -> None:
    schemas._known[PLACE] = there = known(100.0 - age_s)
    assert fresh(PLACE) is (there if is_fresh else None)
    assert fresh((*PLACE[:3], "other")) is None


def test_the_database_is_asked_for_what_has_changed() -> None:
    assert asked(PLACE) == {"topic": "orders", "known": None}
    schemas._known[PLACE] = known()
    assert asked(PLACE) == {"topic": "orders", "known": 7}
    assert asked((*PLACE[:3], "other")) == {"topic": "other", "known": None}


ROWS = json.dumps(
    [{"event_type": t, "version": v, "schema": s} for t, v, s in (("*", 1, TEXT), ("paid", 2, NUMBER), ("paid", 1, NOTHING))]
)  # fmt: skip
READ = {"*": versions("*", TEXT), "paid": versions("paid", NUMBER, NOTHING)}


@pytest.mark.parametrize("before", [None, known(3.0, sent=(TEXT,))])
def test_what_is_read_is_what_is_known_now(before: TopicSchemas | None) -> None:
    assert learned((8, ROWS), before) == TopicSchemas(8, READ, 100.0)
    assert learned((8, "[]"), before) == TopicSchemas(8, {}, 100.0)


def test_what_has_not_changed_is_known_for_longer() -> None:
    before = known(3.0, sent=(TEXT,))
    assert learned((7, None), before) == TopicSchemas(7, before.by_type, 100.0)


def test_a_topic_that_is_not_there_has_no_schemas() -> None:
    assert learned((None, None), None) == TopicSchemas(0, {}, 100.0)


def test_each_topic_is_remembered_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_KNOWN_MAX", 2)
    others = [(*PLACE[:3], name) for name in ("a", "b", "c")]
    for place in others[:2]:
        assert remember(place, (8, ROWS)) == TopicSchemas(8, READ, 100.0)
    assert set(schemas._known) == set(others[:2])
    assert remember(others[2], (9, "[]")) is schemas._known[others[2]]
    assert set(schemas._known) == {others[2]}
    assert remember(others[2], (9, None)) == TopicSchemas(9, {}, 100.0)
