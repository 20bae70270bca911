"""The columns of an event: every list of them, in SQL and in Python, against the one in log/event.py.

Whoever adds a column to outbox_message_t is led through all the places that must know of it.
"""

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any, get_args

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.queries import query, sql_root
from gapless.features.load import parse
from gapless.features.spark import events
from gapless.features.spark.columns import COLUMNS as OF_THE_SOURCE
from gapless.log.event import COLUMNS, GIVEN, Event, NewEvent, Row
from gapless.log.tail import Entry

STORED = {"topic_id", *GIVEN}
CHAINED = {"cause", "correlation"}
KEPT = {*COLUMNS, "message_id"} - {"id", "xid"}  # of an event that was set aside
_LIST = re.compile(r"gapless\.outbox_message_t\s*\(([^)]+)\)")
_GRANT = re.compile(r"grant insert \(([^)]+)\)\s+on gapless\.outbox_message_t")
_STAGE = re.compile(r"create unlogged table gapless\.%I \(([^)]+)\)")


@pytest.fixture(scope="module")
def server(server_dsn: str, template: str) -> Iterator[Connection]:
    with psycopg.connect(make_conninfo(server_dsn, dbname=template), autocommit=True) as conn:
        yield conn


def _words(text: str) -> list[str]:
    """The names of a list in SQL: the first word between two commas, without quotes of Python."""
    return [part.split()[0] for part in re.sub(r"'\s*'", " ", text).replace("'", "").split(",")]


@cache
def _sql() -> str:
    """All SQL but the tables, which say what a column is."""
    return "\n".join(
        path.read_text()
        for path in sorted(sql_root().rglob("*.sql"))
        if path.parent.name not in {"tables", "migrations"}
    )


CAPTURED = {"topic_id", "key", "event_type", "payload"}  # others are left to their defaults


def _of(server: Connection, relation: str) -> list[str]:
    rows = server.execute(
        "select a.attname::text from pg_attribute a where a.attrelid = %s::regclass"
        " and a.attnum > 0 and not a.attisdropped order by a.attnum",
        (relation,),
    )
    return [name for (name,) in rows]


def _arguments(server: Connection, function: str, modes: str) -> list[str]:
    row = server.execute(
        "select array(select n from unnest(p.proargnames, p.proargmodes) as a (n, m)"
        " where coalesce(m, 'i') = any (%s)) from pg_proc p"
        " where p.pronamespace = 'gapless'::regnamespace and p.proname = %s",
        (list(modes), function),
    ).fetchone()
    assert row is not None
    return list(row[0])


def _answer(server: Connection, stage: str, name: str) -> list[str]:
    described = server.execute(
        re.sub(r"%\((\w+)\)[sb]", "null", query(stage, name)).replace("%%", "%").encode()
    ).description
    assert described is not None
    return [column.name for column in described]


def test_the_table_has_them_and_its_topic(server: Connection) -> None:
    assert set(_of(server, "gapless.outbox_message_t")) == {"topic_id", *COLUMNS}
    assert set(GIVEN) < set(COLUMNS)


def test_what_no_producer_gives_has_a_default(server: Connection) -> None:
    rows = server.execute(
        "select a.attname::text from pg_attribute a"
        " join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum"
        " where a.attrelid = 'gapless.outbox_message_t'::regclass"
    )
    assert {name for (name,) in rows} >= set(COLUMNS) - set(GIVEN)


def test_whatever_inserts_gives_all_of_them() -> None:
    found = [_words(each) for each in _LIST.findall(_sql())]
    assert len(found) >= 7, "publish(), publish_each(), publish_once(), COPY, stages …"
    for names in found:
        # promote() and schedules say what it came of, too; a captured row has no more than these.
        assert set(names) in (STORED, STORED | CHAINED, CAPTURED)
        assert len(set(names)) == len(names)


def test_what_waits_for_its_time_keeps_them(server: Connection) -> None:
    waiting = set(_of(server, "gapless.scheduled"))
    assert waiting >= STORED | CHAINED
    (kept,) = (
        names for names in map(_words, _LIST.findall(_move_due())) if set(names) == STORED | CHAINED
    )
    assert kept


def _move_due() -> str:
    return (sql_root() / "features/scheduled/functions/move_due.sql").read_text()


def test_a_producer_may_insert_them() -> None:
    (granted,) = _GRANT.findall(_sql())
    assert set(_words(granted)) == STORED | CHAINED


def test_a_stage_holds_them() -> None:
    (staged,) = _STAGE.findall(_sql().replace("'\n    '", ""))
    assert set(_words(staged)) == STORED


@pytest.mark.parametrize(
    ("function", "ending"),
    [("publish", ""), ("publish_once", ""), ("publish_from", ""), ("publish_some_from", ""),
     ("publish_each", "s")],
)  # fmt: skip
def test_a_function_that_publishes_takes_them(
    server: Connection, function: str, ending: str
) -> None:
    plural = {name: name + ending for name in GIVEN} | {"headers": "headers"}
    assert set(_arguments(server, function, "ib")) >= set(plural.values())


@pytest.mark.parametrize(
    ("stage", "name"), [("log", "fetch"), ("consume", "claim_events"), ("consume", "fetch_letter")]
)
def test_a_query_that_reads_has_them_in_the_order_of_a_row(
    server: Connection, stage: str, name: str
) -> None:
    found = _answer(server, stage, name)[-len(COLUMNS) :]
    assert ["id" if column == "message_id" else column for column in found] == list(COLUMNS)


def test_functions_that_read_return_them(server: Connection) -> None:
    assert _arguments(server, "claim_events", "t")[-len(COLUMNS) :] == list(COLUMNS)
    shown = KEPT - CHAINED
    assert set(_arguments(server, "read", "t")) == {*shown, "c_offset"}
    assert {field.name for field in fields(Entry)} == {*shown, "partition", "offset"}


def test_what_is_set_aside_keeps_them(server: Connection) -> None:
    kept = _of(server, "gapless.dead_letter_event")
    assert set(kept) >= KEPT
    (written,) = re.findall(r"insert into gapless\.dead_letter_event as e \(([^)]+)\)", _sql())
    assert sorted(_words(written)) == sorted(kept)
    for view in ("dead_letter_queue", "letters"):
        assert set(_of(server, f"gapless.{view}")) >= KEPT - CHAINED


def test_an_event_reads_them_where_they_are() -> None:
    assert len(get_args(Row)) == len(COLUMNS)
    row: Any = tuple(
        {"payload": b'"payload"', "headers": b'{"a": 1}', "created_ts": 0, "cause": None}.get(
            name, name
        )
        for name in COLUMNS
    )
    event = Event("orders", 0, 1, row)
    plain = set(COLUMNS) - {"headers", "created_ts", "cause", "xid"}
    assert {name: getattr(event, name) for name in plain} == {name: name for name in plain}
    assert event.headers == {"a": 1}
    assert event.created_ts.year == 2000
    assert event.cause is None


def test_producers_give_them() -> None:
    beside = {"dedupe_key", "deliver_at", "deliver_in", "to_group", "to_subscription"}
    assert {field.name for field in fields(NewEvent)} == {*GIVEN, *beside}
    assert set(parse._FIELDS) == {*GIVEN, *beside}


def test_spark_reads_and_publishes_them() -> None:
    fetched = {name for column in OF_THE_SOURCE.values() for name in column.fetched}
    assert fetched == set(COLUMNS) - CHAINED - {"id"}
    (copied,) = _LIST.findall(query("spark", "copy_into_log"))
    named = {"topic_id": "topic", "payload": "value"}
    assert [named.get(name, name) for name in _words(copied)] == list(events._FIELDS)
