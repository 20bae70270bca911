"""set_schema(), remove_schema(): versions of one type of events of one topic, beside those of others."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.twins import Twins

SET = "select gapless.set_schema(%s, %s, %s, %s, %s)"
REMOVE = "select gapless.remove_schema(%s, %s, %s)"
NUMBERS = "select name, schemas_no from gapless.topic"
ROWS = (
    "select t.name, s.event_type, s.version, s.schema::text, s.compatibility, s.removed_ts is null"
    " from gapless.topic_schema s join gapless.topic t using (topic_id) order by 1, 2, 3"
)
OBJECT, INTEGER = '{"type": "object"}', '{"type": "integer"}'
AUDITS = (
    "select action, t.name, group_id, partition_id, detail from gapless.audit join gapless.topic t using (topic_id)"
    " where action like '%%schema' order by audit_id desc limit 1"
)
KEPT = [
    (OBJECT, "none"),
    (INTEGER, "full"),
    ("true", "forward"),
]  # versions 1 to 3; the last of "c" is removed


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """Of both topics three versions of types a, b, c and of all others."""
    for topic in shared.topic_ids:
        for event_type in ("a", "b", "c", None):
            for schema, compatibility in KEPT:
                shared.value(SET, topic, schema, event_type, compatibility, None)
        shared.value(REMOVE, topic, "c", 3)
    shared.conn.execute("update gapless.topic set schemas_no = 7")
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        yield settled


def done(twins: Twins, statement: str, *params: Any) -> tuple[Any, set[Any], set[Any]]:
    """What a call says, which rows went, and which came; only the topic's number is another then."""
    before, numbers = set(twins.conn.execute(ROWS)), dict(twins.conn.execute(NUMBERS).fetchall())
    answer = twins.value(statement, *params)
    after = set(twins.conn.execute(ROWS))
    now = dict(twins.conn.execute(NUMBERS).fetchall())
    if before == after:
        assert now == numbers
    else:
        assert now["orders"] > numbers["orders"]
        assert now | {"orders": 0} == numbers | {"orders": 0}
    return answer, before - after, after - before


# Schema, type, compatibility, the version that it was compared with; the version that it is, and its compatibility.
VERSIONS: list[tuple[str, str | None, str | None, int | None, int, str | None]] = [
    ("false", "a", None, None, 4, "forward"),
    ("false", "a", None, 3, 4, "forward"),
    ("false", "a", "none", 3, 4, "none"),
    ("true", "a", "none", None, 4, "none"),
    ("true", "a", "forward", None, 3, None),
    ("true", "a", None, 3, 3, None),
    (INTEGER, "a", "forward", None, 4, "forward"),
    (INTEGER, "c", None, 2, 2, None),
    ("true", "c", "forward", 2, 4, "forward"),
    ("true", "c", None, None, 4, "full"),
    ("true", "d", None, 0, 1, "backward"),
    ("true", "d", "full", None, 1, "full"),
    ("false", None, None, 3, 4, "forward"),
    ("false", "*", None, 3, 4, "forward"),
    ("true", None, None, None, 3, None),
]


@pytest.mark.parametrize("case", VERSIONS, ids=str)
def test_a_version_follows_the_newest(
    twins: Twins, case: tuple[str, str | None, str | None, int | None, int, str | None]
) -> None:
    """A number is used once; what says the same as the newest that is left is no version."""
    schema, event_type, compatibility, after, number, is_so = case
    asked = ["orders", schema, event_type, compatibility, after]
    answer, went, came = done(twins, SET, *asked)
    assert (answer, went) == (number, set())
    name = event_type or "*"
    assert came == ({("orders", name, number, schema, is_so, True)} if is_so else set())
    if is_so:
        detail = {"event_type": name, "version": number, "compatibility": is_so}
        assert twins.conn.execute(AUDITS).fetchall() == [("schema", "orders", "", None, detail)]


@pytest.mark.parametrize(
    ("event_type", "after", "newest"),
    [("a", 2, 3), ("a", 4, 3), ("a", 0, 3), ("c", 3, 2), ("d", 1, 0)],
)
def test_what_came_between_is_to_be_compared_with(
    twins: Twins, event_type: str, after: int, newest: int
) -> None:
    said = (
        f"version {newest} of the schema of orders/{event_type} came between: compare with that one"
    )
    assert twins.refused(SET, ["orders", "true", event_type, None, after]) == ("GL409", said)


# Which type, which version; the versions that go.
REMOVED: list[tuple[str | None, int | None, list[int]]] = [
    ("a", None, [1, 2, 3]),
    ("a", 1, [1]),
    ("a", 3, [3]),
    ("c", None, [1, 2]),
    (None, None, [1, 2, 3]),
    ("*", 2, [2]),
]


@pytest.mark.parametrize(("event_type", "version", "versions"), REMOVED)
def test_versions_are_taken_away(
    twins: Twins, event_type: str | None, version: int | None, versions: list[int]
) -> None:
    answer, went, came = done(twins, REMOVE, "orders", event_type, version)
    name = event_type or "*"
    rows = {("orders", name, each, *KEPT[each - 1]) for each in versions}
    assert (answer, went) == (len(versions), {(*row, True) for row in rows})
    assert came == {(*row, False) for row in rows}
    detail = {"event_type": name, "version": version, "versions": len(versions)}
    assert twins.conn.execute(AUDITS).fetchall() == [("remove schema", "orders", "", None, detail)]
    what = "version" if version is None else f"version {version}"
    said = f"there is no {what} of a schema of orders/{name}: gapless schemas list shows them"
    assert twins.refused(REMOVE, ["orders", event_type, version]) == ("GL404", said)


@pytest.mark.parametrize("statement", ["set", "remove"])
def test_another_number_also_when_the_clock_is_behind(twins: Twins, statement: str) -> None:
    """Who has read the schemas sees by it that they are others now."""
    twins.conn.execute("update gapless.topic set schemas_no = 9000000000000000000")
    if statement == "set":
        done(twins, SET, "orders", "false", "a", None, None)
    else:
        done(twins, REMOVE, "orders", "a", None)
    assert twins.value("select max(schemas_no) from gapless.topic") == 9000000000000000001
    now = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
    twins.conn.execute("update gapless.topic set schemas_no = 7")
    before = twins.value(now)
    done(twins, SET, "orders", "false", "b", None, None)
    assert before <= twins.value("select max(schemas_no) from gapless.topic") <= twins.value(now)


def wide(size: int) -> str:
    return '{"title": "' + "x" * (size - 13) + '"}'


NO_TYPE = '"{}" has no schema: a type of events has 1 to 200 characters, and no * among them; * alone is all others'
WRONG = 'compatibility is backward, forward, full or none, not "{}"'
# A schema, a type, a compatibility, and what is refused of it.
CHECKED: list[tuple[str | None, str | None, str | None, str | None]] = [
    ("{}", "a", None, None),
    ("true", "*", "backward", None),
    ("false", "a" * 200, "full", None),
    (wide(1_000_000), None, "forward", None),
    (wide(1_000_001), "a", None, "a schema has at most 1000000 bytes, not 1000001"),
    (None, "a", None, "a schema is a JSON object, or true or false, not null"),
    ("null", "a", None, "a schema is a JSON object, or true or false, not null"),
    ("[]", "a", None, "a schema is a JSON object, or true or false, not array"),
    ("1", "a", None, "a schema is a JSON object, or true or false, not number"),
    ("{}", "", None, NO_TYPE.format("")),
    ("{}", "a" * 201, None, NO_TYPE.format("a" * 100)),
    ("{}", "a*", None, NO_TYPE.format("a*")),
    ("{}", "**", None, NO_TYPE.format("**")),
    ("{}", "a", "Full", WRONG.format("Full")),
    ("{}", "a", "x" * 200, WRONG.format("x" * 100)),
]


@pytest.mark.parametrize("case", CHECKED, ids=lambda case: str(case)[:40])
def test_what_can_be_a_schema(
    twins: Twins, case: tuple[str | None, str | None, str | None, str | None]
) -> None:
    schema, event_type, compatibility, refusal = case
    asked = ["orders", schema, event_type, compatibility, None]
    if refusal is None:
        assert done(twins, SET, *asked)[0] in {1, 4}
    else:
        assert twins.refused(SET, asked) == ("GL400", refusal)
    missing = 'topic "none" does not exist: create it with gapless topics create none'
    assert twins.refused(SET, ["none", *asked[1:]]) == ("GL404", missing)
    assert twins.refused(REMOVE, ["none", "a", None]) == ("GL404", missing)
