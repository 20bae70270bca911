"""ops and SQL of schemas: versions, races, the audit, what is not a schema."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import RefusedError, UsageError
from gapless.features.schemas import ops as schema_ops
from gapless.features.schemas.checks import schemas
from gapless.features.schemas.section import Checked
from gapless.log.topics import ensure_topic
from gapless.ops.doctor.finding import Patient
from gapless.status import snapshot

NUMBER, INTEGER = '{"type": "number"}', '{"type": "integer"}'


@pytest.fixture(autouse=True)
def orders(conn: Connection) -> None:
    ensure_topic(conn, "orders", partitions=1)


def test_versions_are_never_used_twice(conn: Connection) -> None:
    assert ops.add_schema(conn, "orders", INTEGER).version == 1
    assert ops.add_schema(conn, "orders", NUMBER).version == 2
    assert ops.remove_schema(conn, "orders", version=2).version == 1
    assert ops.add_schema(conn, "orders", NUMBER).version == 3
    assert [each.version for each in ops.list_schemas(conn)] == [1, 3]
    assert ops.show_schema(conn, "orders").schema == NUMBER
    actions = conn.execute("select action, detail->>'version' from gapless.audit order by audit_id")
    assert actions.fetchall()[-4:] == [
        ("schema", "1"), ("schema", "2"), ("remove schema", "2"), ("schema", "3"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("compatibility", "schema", "refusal"),
    [
        ("backward", NUMBER, None),
        ("forward", NUMBER, "cannot be told to be forward compatible"),
        ("full", NUMBER, "cannot be told to be fully compatible"),
        ("backward", '{"type": "string"}', "is not backward compatible"),
        ("forward", "false", None),
        ("none", '{"type": "string"}', None),
        (None, '{"type": "string"}', "is not backward compatible"),
    ],
)
def test_compatibility(
    conn: Connection, compatibility: Any, schema: str, refusal: str | None
) -> None:
    ops.add_schema(conn, "orders", INTEGER)
    if refusal is None:
        assert ops.add_schema(conn, "orders", schema, compatibility=compatibility).version == 2
        return
    with pytest.raises(UsageError, match=refusal):
        ops.add_schema(conn, "orders", schema, compatibility=compatibility)
    assert ops.show_schema(conn, "orders").version == 1
    assert ops.add_schema(conn, "orders", schema, compatibility=compatibility, force=True).changed


def test_what_is_asked_for_stays_for_the_next_version(conn: Connection) -> None:
    ops.add_schema(conn, "orders", INTEGER, compatibility="full")
    with pytest.raises(UsageError, match="fully"):
        ops.add_schema(conn, "orders", NUMBER)


def test_a_version_that_came_between_is_compared_with(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops.add_schema(conn, "orders", INTEGER)
    real: Callable[..., Any] = schema_ops.row  # type: ignore[attr-defined]

    def late(*args: Any, **params: Any) -> Any:
        conn.execute("select gapless.set_schema('orders', 'false', compatibility => 'none')")
        return real(*args, **params)

    monkeypatch.setattr("gapless.features.schemas.ops.row", late)
    with pytest.raises(RefusedError, match="version 2 of the schema of orders/\\* came between"):
        ops.add_schema(conn, "orders", NUMBER)


@pytest.mark.writes_nothing
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("'orders', '[]'", "JSON object"),
        ("'orders', null", "JSON object"),
        ("'orders', 'true', ''", "1 to 200 characters"),
        ("'orders', 'true', 'a.*'", "no \\* among them"),
        ("'orders', 'true', null, 'sideways'", "backward, forward, full or none"),
        ("'nowhere', 'true'", "nowhere"),
        ("'orders', ('\"' || repeat('x', 2000000) || '\"')::json", "JSON object"),
        ("'orders', json_build_object('title', repeat('x', 2000000))", "1000000 bytes"),
    ],
)
def test_sql_refuses_what_cannot_be_a_schema(conn: Connection, arguments: str, says: str) -> None:
    with pytest.raises(Exception, match=says) as refused:
        conn.execute(f"select gapless.set_schema({arguments})")  # type: ignore[arg-type]
    assert str(getattr(refused.value, "sqlstate", "")).startswith("GL")


def test_doctor_names_what_cannot_be_read(conn: Connection) -> None:
    patient = Patient(conn=conn, second=conn)
    assert [each.text for each in schemas(patient)] == ["no topic has one"]
    conn.execute("""select gapless.set_schema('orders', '{"type": "objekt"}')""")
    (found,) = schemas(patient)
    assert found.level == "FAIL"
    assert "version 1 of the schema of orders/*: no JSON Schema" in found.text


def test_doctor_counts_what_groups_set_aside(dsn: str, conn: Connection) -> None:
    from gapless import testing
    from gapless.consume.user.handler import handler

    ops.add_schema(conn, "orders", INTEGER)

    @handler(topic="orders", group="g", on_invalid="dead-letter")
    def bill(unit: Any, conn: Connection) -> None: ...

    conn.execute("""select gapless.publish('orders', '"x"')""")
    assert testing.drain(dsn, bill).dead == 1
    (found,) = schemas(Patient(conn=conn, second=conn))
    assert found.text.startswith("g/orders set 1 unit aside that fit no schema")
    ops.add_schema(conn, "orders", INTEGER, event_type="order")
    (topic,) = snapshot(conn).of(Checked)
    assert topic == Checked(topic="orders", types=["*", "order"], versions=2, unfit=1)
