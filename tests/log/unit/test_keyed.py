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
    told,
)
from gapless.log.record import group_text, is_special, key_text, subscription_text

A = str(UUID(int=1))
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
