"""What publish() stores of an event: its columns as text, and what is said of one that cannot be stored."""

from typing import Any
from uuid import UUID

import pytest

from gapless.errors import PublishError
from gapless.log.event import GIVEN, NewEvent
from gapless.log.record import json_text, record

ID = "12345678-1234-5678-1234-567812345678"
HOST = "aabbccdd-0011-2233-4455-66778899aabb"
NAMES = ("key", "event_type", "host_id", "user_id")


def test_each_column_is_text_in_its_place() -> None:
    event = NewEvent(
        payload={"ü": [1, None]}, key="k", event_type="t", headers={"h": 1}, host_id="h", user_id="u", transaction_id=UUID(ID)
    )  # fmt: skip
    assert record(event) == ('{"ü":[1,null]}', "k", "t", '{"h":1}', "h", "u", ID)
    assert record(NewEvent(payload=None)) == ("null", *(None,) * 6)
    assert record(NewEvent(payload=b"1 ", headers={})) == ("1 ", None, None, "{}", *(None,) * 3)
    assert len(GIVEN) == 7


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["", "x", UUID(ID)])
def test_a_uuid_is_text_too(name: str, value: Any) -> None:
    found = dict(zip(GIVEN, record(NewEvent(payload=1, **{name: value})), strict=True))
    assert {key: text for key, text in found.items() if text is not None} == {
        "payload": "1",
        name: str(value),
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (5, "{name} must be text, not int"), (b"x", "{name} must be text, not bytes"),
        ("a\0b", "{name} 'a\\x00b' has a NUL character, which PostgreSQL cannot store"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_said(name: str, value: Any, why: str) -> None:
    with pytest.raises(PublishError) as caught:
        record(NewEvent(payload=1, **{name: value}))
    assert str(caught.value) == why.format(name=name)


@pytest.mark.parametrize(
    ("host_id", "stored"),
    [
        (HOST, HOST), (HOST.upper(), HOST), (f"{{{HOST.upper()}}}", HOST), (UUID(HOST), HOST), ("H", "H"), ("{H}", "{H}"),
        (f"{{{HOST.upper()}", f"{{{HOST.upper()}"), (f"{HOST.upper()}}}", f"{HOST.upper()}}}"),
        (f"{HOST.upper()}0", f"{HOST.upper()}0"), (f" {HOST.upper()}", f" {HOST.upper()}"), (None, None),
        (HOST.upper().replace("-", ""), HOST.upper().replace("-", "")),
    ],
)  # fmt: skip
def test_one_host_is_spelt_in_one_way(host_id: Any, stored: str | None) -> None:
    assert record(NewEvent(payload=1, host_id=host_id))[4] == stored


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (UUID(ID), ID),
        (ID, ID),
        (ID.replace("-", ""), ID),
        (f"{{{ID}}}", ID),
        (f"urn:uuid:{ID}", ID),
        (None, None),
    ],
)
def test_a_transaction_id_is_a_uuid(value: Any, stored: str | None) -> None:
    assert record(NewEvent(payload=1, transaction_id=value))[6] == stored


@pytest.mark.parametrize("value", ["", "abc", 7, b"x" * 16, [ID]])
def test_what_is_no_uuid_is_said(value: Any) -> None:
    with pytest.raises(PublishError) as caught:
        record(NewEvent(payload=1, transaction_id=value))
    assert str(caught.value) == f"transaction_id {value!r} is not a UUID"


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize("name", ["payload", "headers"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\xff", "{}: JSON text must be UTF-8: "), (bytearray(b"\xff"), "{}: JSON text must be UTF-8: "),
        (object(), "{} is not JSON: Object of type object is not JSON serializable"),
        ({"a": float("nan")}, "{} is not JSON: "), (_endless(), "{} is not JSON: "),
    ],
)  # fmt: skip
def test_what_is_no_json_is_said(name: str, value: Any, why: str) -> None:
    with pytest.raises(PublishError) as caught:
        record(NewEvent(**{"payload": 1, name: value}))
    assert str(caught.value).startswith(why.format(name))


def test_bytes_are_json_text_already() -> None:
    assert json_text(b'{"b": 1, "b": 2}', "payload") == '{"b": 1, "b": 2}'
    assert json_text(bytearray("ü".encode()), "payload") == "ü"
    assert json_text("ü", "payload") == '"ü"'
