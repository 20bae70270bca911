"""gapless schemas: added, compared, listed, shown, removed; publish is checked; what is refused."""

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gapless.log.topics import ensure_topic

OPEN = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.fixture
def files(tmp_path: Path, conn: psycopg.Connection) -> Any:
    ensure_topic(conn, "orders", partitions=2)

    def write(schema: object, name: str = "s.json") -> str:
        path = tmp_path / name
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return str(path)

    return write


@pytest.mark.long
def test_the_life_of_a_schema(gapless: Any, files: Any) -> None:
    assert "no schemas: " in gapless("schemas").err
    one = files(OPEN)
    done = gapless("schemas", "add", "orders", one, "--type", "placed")
    assert done.out == "added version 1 of the schema of orders/placed\n"
    assert gapless("schemas", "add", "orders", one, "--type", "placed").out.startswith(
        "nothing to do"
    )
    assert gapless("publish", "orders", '{"total": 5}', "--type", "placed").code == 0
    bad = gapless("publish", "orders", '{"total": "x"}', "--type", "placed").complaint()
    assert '/total: "x" is not of type "integer" (schema 1 of orders/placed)' in bad
    narrow = files({**OPEN, "required": ["total", "by"]}, "narrow.json")
    refused = gapless("schemas", "add", "orders", narrow, "--type", "placed").complaint()
    assert "is not backward compatible" in refused
    checked = gapless("schemas", "check", "orders", narrow, "--type", "placed", "--json")
    assert checked.code == 1
    assert checked.json["backward"] == "no"
    assert (checked.json["events"], checked.json["misfits"]) == (0, 0)
    forced = gapless("schemas", "add", "orders", narrow, "--type", "placed", "--force", "--json")
    assert forced.json["version"] == 2
    rows = gapless("schemas", "list", "orders", "--json").json
    assert [(row["version"], row["is_newest"]) for row in rows] == [(1, False), (2, True)]
    shown = gapless("schemas", "show", "orders", "--type", "placed", "--number", "1")
    assert json.loads(shown.out) == OPEN
    removed = gapless("schemas", "remove", "orders", "--type", "placed", "--number", "2")
    assert removed.out == "removed from orders/placed: version 1 counts\n"
    assert gapless("schemas", "remove", "orders", "--type", "placed").out.endswith("none is left\n")
    assert gapless("schemas", "show", "orders").complaint().endswith("gapless schemas list orders")


@pytest.mark.long
def test_the_log_is_looked_at(gapless: Any, files: Any, conn: psycopg.Connection) -> None:
    for payload in ('{"total": 1}', '{"total": "x"}'):
        gapless("publish", "orders", payload, "--key", "k")
    gapless("publish", "orders", "5", "--type", "own")
    gapless("schemas", "add", "orders", files(True, "own.json"), "--type", "own")
    conn.execute("select gapless.sequence_events()")
    found = gapless("schemas", "check", "orders", files(OPEN))
    assert found.code == 1
    assert "2 events looked at, 1 of them do not fit" in found.out
    assert '@2: /total: "x" is not of type "integer"' in found.out
    assert gapless("schemas", "check", "orders", files(OPEN), "--last", "0").code == 0


def test_a_schema_that_is_too_large(gapless: Any, files: Any) -> None:
    large = files('{"title": "' + "x" * 10_000_000 + '"}')
    assert "at most 1000000 bytes" in gapless("schemas", "add", "orders", large).complaint()
