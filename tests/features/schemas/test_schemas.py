"""ops and SQL of schemas: versions, races, the audit, what is not a schema."""

from typing import Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import UsageError
from gapless.features.schemas.checks import schemas
from gapless.features.schemas.section import Checked
from gapless.log.topics import ensure_topic
from gapless.ops.doctor.finding import Patient
from gapless.status import snapshot

NUMBER, INTEGER = '{"type": "number"}', '{"type": "integer"}'


@pytest.fixture(autouse=True)
def orders(conn: Connection) -> None:
    ensure_topic(conn, "orders", partitions=1)


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
