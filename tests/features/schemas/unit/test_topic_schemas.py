"""What is known of a topic's schemas: by which one an event is checked, and what is said of it."""

import json
from typing import Any

import pytest

from gapless.errors import InvalidPayloadError, PublishError, UncheckedError
from gapless.features.schemas.stored import SchemaVersion, TopicSchemas, topic_schemas
from gapless.log.event import NewEvent

NUMBER, TEXT, NOTHING = '{"type": "integer"}', '{"type": "string"}', "false"
UNREADABLE = '{"type": 5}'
PLACE = ("host", 5432, "db", "orders")


def versions(event_type: str, *texts: str) -> tuple[SchemaVersion, ...]:
    """The newest first."""
    count = len(texts)
    return tuple(SchemaVersion(event_type, count - n, text) for n, text in enumerate(texts))


def known(**texts: Any) -> TopicSchemas:
    by_type = {
        "*" if name == "any" else name: versions("*" if name == "any" else name, *each)
        for name, each in texts.items()
    }
    return TopicSchemas(by_type)


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
    schemas = known(paid=texts)
    found = schemas.refusal("orders", "paid", "5")
    if says is None:
        assert found is None
    else:
        version = next(each for each in schemas.by_type["paid"] if each.version == says)
        assert found == f"{version.read().mismatch('5')} (schema {says} of orders/paid)"


def test_what_is_read_is_what_is_known() -> None:
    rows = [("*", 1, TEXT), ("paid", 2, NUMBER), ("paid", 1, NOTHING)]
    text = json.dumps([{"event_type": t, "version": v, "schema": s} for t, v, s in rows])
    there = {"*": versions("*", TEXT), "paid": versions("paid", NUMBER, NOTHING)}
    assert topic_schemas(text) == TopicSchemas(there)
