"""What publish() tells of events with a dedupe_key, or for later, and what it takes for them."""

import copy
import pickle
from typing import Any
from uuid import UUID

import pytest

from gapless.errors import PublishError
from gapless.log.event import NewEvent
from gapless.log.keyed import (
    Published,
    Split,
    block_of,
    summed,
    told,
)
from gapless.log.record import group_text, is_special, key_text, subscription_text

A, B, OWN = (str(UUID(int=n)) for n in (1, 2, 3))
Seen = tuple[str, bool, int, tuple[int, ...]]


def seen(published: UUID) -> Seen:
    assert type(published) is Published
    return (
        str(published),
        published.duplicate,
        published.duplicates,
        published.scheduled_ids,
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((A, 0, 1, None), (A, False, 0, ())),
        ((A, 1, 0, None), (A, True, 1, ())),
        ((A, 2, 3, [8, 9]), (A, False, 2, (8, 9))),
        ((UUID(A), 0, 1, []), (A, False, 0, ())),
    ],
)
def test_a_row_is_told(row: Any, expected: Seen) -> None:
    published = told(row)
    assert seen(published) == expected
    assert published == UUID(A)
    assert seen(pickle.loads(pickle.dumps(published))) == expected
    assert copy.copy(published) is published
    assert copy.deepcopy(published) is published


@pytest.mark.parametrize(
    ("stored", "rows", "expected"),
    [
        (0, [(A, 2, 0, None)], (A, True, 2, ())),
        (0, [(A, 2, 0, None), (B, 3, 0, None)], (A, True, 5, ())),
        (0, [(A, 2, 0, None), (B, 1, 1, [4])], (OWN, False, 3, (4,))),
        (0, [(A, 0, 5, [1, 2]), (B, 1, 0, [3])], (OWN, False, 1, (1, 2, 3))),
        (1, [(A, 2, 0, None)], (OWN, False, 2, ())),
    ],
)
def test_several_statements_are_told_as_one(stored: int, rows: list[Any], expected: Seen) -> None:
    assert seen(summed(rows, UUID(OWN), stored)) == expected


@pytest.mark.parametrize("stored", [0, 5])
def test_without_a_special_event_it_is_the_id_alone(stored: int) -> None:
    found = summed([], UUID(OWN), stored)
    assert (type(found), found) == (UUID, UUID(OWN))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(A,)], (A, False, 0, ())),
        ([(A, 1, 0, None), (B,)], (B, False, 1, ())),
        ([(A, 1, 0, None), (B, 2, 0, None)], (A, True, 3, ())),
        ([(A, 1, 0, [1]), (B, 2, 4, [2, 3])], (B, False, 3, (1, 2, 3))),
    ],
)
def test_rows_are_summed(rows: list[Any], expected: Seen) -> None:
    assert seen(summed(rows)) == expected


@pytest.mark.parametrize(
    ("fields", "special"),
    [
        ({}, False),
        ({"key": "a"}, False),
        ({"dedupe_key": "a"}, True),
        ({"dedupe_key": ""}, True),
        ({"deliver_at": "x"}, True),
        ({"deliver_in": 0}, True),
        ({"to_group": "a"}, True),
        ({"to_subscription": "a"}, True),
    ],
)
def test_what_is_special(fields: dict[str, Any], special: bool) -> None:
    event = NewEvent(payload=None, **fields)
    assert is_special(event) is special


@pytest.mark.parametrize("at", [0, 1, 3, None])
@pytest.mark.parametrize("many", [4, 203, 403])
def test_events_before_the_first_special_one_go_alone(at: int | None, many: int) -> None:
    events = [
        NewEvent(payload=n, dedupe_key=f"k{n}" if n == at or (n == many - 1 and at) else None)
        for n in range(many)
    ]
    split = Split(iter(events))
    first = many - 1 if at is None else at
    alone = list(split.unkeyed(lambda event: (event,)))
    special = many if at is None else first
    assert alone == [(event,) for event in events[:special]]
    blocks = list(split.blocks("t"))
    rest = [str(n) for n in range(special, many)]
    assert [block["payload"] for block in blocks] == [
        rest[n : n + 200] for n in range(0, len(rest), 200)
    ]
    assert all(block["topic"] == "t" for block in blocks)


def test_what_cannot_be_stored_stops_it_before_it_is_told_apart() -> None:
    def refuse(event: object) -> tuple[Any, ...]:
        raise PublishError("no")

    with pytest.raises(PublishError, match="no"):
        list(Split(iter([NewEvent(payload=1, dedupe_key="a")])).unkeyed(refuse))


def test_a_block_has_an_array_for_each_field() -> None:
    events = [
        NewEvent(payload=1, dedupe_key="a", deliver_in=1),
        NewEvent(payload=2, deliver_at="2030-01-01T00:00Z", to_group="g", to_subscription="s"),
    ]
    assert block_of("t", events, {"payload": ["1", "2"], "key": None}) == {
        "topic": "t",
        "payload": ["1", "2"],
        "key": None,
        "dedupe_key": ["a", None],
        "deliver_at": [None, "2030-01-01T00:00:00+00:00"],
        "deliver_in": ["0 h 1.000000 s", None],
        "to_group": [None, "g"],
        "to_subscription": [None, "s"],
    }


@pytest.mark.parametrize(
    ("value", "text"), [(None, None), ("a", "a"), ("a" * 500, "a" * 500), (UUID(A), A)]
)
def test_a_dedupe_key(value: object, text: str | None) -> None:
    assert key_text(value) == text


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (1, "dedupe_key must be text, not int"),
        ("", "dedupe_key must have 1 to 500 characters, not 0"),
        ("a" * 501, "dedupe_key must have 1 to 500 characters, not 501"),
        ("\0", "dedupe_key '\\x00' has a NUL character, which PostgreSQL cannot store"),
    ],
)
def test_what_is_no_dedupe_key(value: object, why: str) -> None:
    with pytest.raises(PublishError) as caught:
        key_text(value)
    assert str(caught.value) == why


@pytest.mark.parametrize("value", [1, "", "a\0", b"a", ["x" * 200]])
def test_what_is_no_group(value: object) -> None:
    with pytest.raises(PublishError) as caught:
        group_text(value)
    assert str(caught.value) == f"to_group must be the name of a group, not {repr(value)[:100]}"


def test_a_group_and_its_subscription() -> None:
    assert group_text(None) is None
    assert group_text("g") == "g"
    assert subscription_text(None, None) is None
    assert subscription_text("s", "g") == "s"
    assert subscription_text("s" * 200, "g") == "s" * 200


@pytest.mark.parametrize("value", [1, "", "s" * 201, "a\0"])
def test_what_is_no_subscription(value: object) -> None:
    with pytest.raises(PublishError) as caught:
        subscription_text(value, "g")
    assert str(caught.value) == (
        "to_subscription must be the name of a subscription (1 to 200 characters),"
        f" not {repr(value)[:100]}"
    )


def test_a_subscription_of_no_group() -> None:
    with pytest.raises(PublishError, match=r"^to_subscription 's' is of no group: say to_group"):
        subscription_text("s", None)
