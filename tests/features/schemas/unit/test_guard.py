"""What keeps events that fit no schema from a handler: when it looks, and what it lets through."""

from typing import Any

import psycopg
import pytest

from gapless.consume.batch import Batch
from gapless.consume.unit import Source, Unit
from gapless.consume.user.guard import Guard, unguarded
from gapless.consume.verdict.wish import InvalidEventError
from gapless.features.schemas.stored import SchemaVersion, TopicSchemas
from gapless.keys import Partition
from gapless.log.known import KnownTopic

pytest.importorskip("jsonschema_rs")

INTEGER = SchemaVersion("t", 2, '{"type": "integer"}')
NULL = SchemaVersion("t", 1, '{"type": "null"}')


def unit(*payloads: bytes | None, topic: str = "orders", first: int = 1) -> Unit:
    place = Partition(group_id="g", topic=topic, topic_id=1, partition_id=3)
    rows: list[Any] = [
        (n, None, "t", raw, None, None, None, None, 7, 0, None, None)
        for n, raw in enumerate(payloads)
    ]
    return Unit(Source(place, lambda _: [], 10), first, rows)


def knowing(*versions: SchemaVersion) -> Guard:
    guard = Guard()
    rules = TopicSchemas({"t": versions}) if versions else None
    guard._known["orders"] = KnownTopic(1, rules, 0.0)
    return guard


@pytest.mark.parametrize(
    ("versions", "payloads", "refused_at"),
    [
        ((), [b"1", b'"x"'], None),
        ((INTEGER,), [b"1", b"2"], None),
        ((INTEGER,), [b"1", b'"x"', b'"y"'], 2),
        ((INTEGER,), [None], 1),  # without a payload it is null
        ((INTEGER, NULL), [None, b"null", b"1"], None),
        ((INTEGER, NULL), [None, b"true"], 2),
    ],
)
def test_the_first_that_no_version_takes_is_told(
    versions: tuple[SchemaVersion, ...], payloads: list[bytes | None], refused_at: int | None
) -> None:
    guard = knowing(*versions)
    if refused_at is None:
        guard.check(unit(*payloads))
        return
    with pytest.raises(InvalidEventError) as caught:
        guard.check(unit(*payloads))
    said = str(caught.value)
    assert said.startswith(f"orders/3@{refused_at}: the payload: ")
    assert said.endswith('is not of type "integer" (schema 2 of orders/t)')


def test_of_another_topic_nothing_is_known() -> None:
    knowing(INTEGER).check(unit(b'"x"', topic="other"))


class _Watched(Guard):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.story: list[Any] = []

    def look(self, conn: object, topic: str) -> None:
        self.story.append(("look", topic))

    def check(self, unit: Unit) -> None:
        self.story.append(("check", unit.first_offset))
        if unit.first_offset == 9:
            raise InvalidEventError("no")


def test_it_looks_and_checks_each_unit_before_the_call() -> None:
    guard = _Watched()
    session = psycopg.Connection.__new__(psycopg.Connection)  # never used, only what it is
    other: Any = "an async one: whoever awaits has looked"

    def handle(work: object, *conn: object) -> Any:
        guard.story.append((work, conn))
        return "returned"

    call = guard.before(handle)
    one = unit(b"1")
    batch = Batch([one, unit(b"2", topic="other", first=2)])
    assert call(one) == "returned"
    assert call(one, other) == "returned"
    assert call(one, session) == "returned"
    assert call(batch, session) == "returned"
    assert guard.story == [
        ("check", 1), (one, ()),
        ("check", 1), (one, (other,)),
        ("look", "orders"), ("check", 1), (one, (session,)),
        ("look", "orders"), ("check", 1), ("look", "other"), ("check", 2), (batch, (session,)),
    ]  # fmt: skip
    guard.story.clear()
    with pytest.raises(InvalidEventError):
        call(Batch([unit(b"2", first=9), one]))
    assert guard.story == [("check", 9)]
    assert unguarded(handle) is handle
