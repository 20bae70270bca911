"""Units that were set aside: listed, shown, redriven, discarded, exported and taken in again."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from gapless import Unit, handler, ops
from gapless.errors import RefusedError, UsageError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.ops import DlqFilter, GroupPlace
from gapless.testing import drain
from support.plans import cost
from support.records import Command, known, value

FIRST = GroupPlace.parse("billing/orders/0@1")
LAST = GroupPlace.parse("billing/orders/0@4")


def states(conn: Connection) -> dict[int, str]:
    return dict(conn.execute("select first_offset, state from gapless.dead_letter").fetchall())


def offsets(conn: Connection, **said: object) -> list[int]:
    return [unit.offset for unit in ops.list_units(conn, DlqFilter(**said))]


def test_list(conn: Connection, refused: None, command: Command) -> None:
    found = ops.list_units(conn, DlqFilter())
    assert [(unit.offset, unit.events, unit.state) for unit in found] == [
        (4, 1, "dead"),
        (1, 2, "dead"),
    ]
    assert known(found) == command("dlq")
    assert [unit.place for unit in found] == [LAST, FIRST]
    assert len(ops.list_units(conn, DlqFilter(), limit=1)) == 1


def test_filters(conn: Connection, refused: None) -> None:
    assert offsets(conn, group="billing", topic="orders", partition=0) == [4, 1]
    assert offsets(conn, key="a") == [1]
    assert offsets(conn, error="OUT OF") == [4, 1]
    assert offsets(conn, until=datetime(2020, 1, 1, tzinfo=UTC)) == []
    assert offsets(conn, since=datetime(2020, 1, 1, tzinfo=UTC)) == [4, 1]
    assert offsets(conn, age=timedelta(hours=1)) == [4, 1]
    assert offsets(conn, states=["redriven"]) == []
    assert offsets(conn, states=None) == [4, 1]
    for said in ({"group": "x"}, {"topic": "x"}):
        with pytest.raises(RefusedError, match=r'there is no (group|topic) "x"') as caught:
            offsets(conn, **said)
        assert caught.value.sqlstate == "GL404"


def test_summary(conn: Connection, refused: None, command: Command) -> None:
    """Ids and numbers are no causes; the filter of a cause finds what was counted."""
    conn.execute(
        "update gapless.dead_letter set reason = format('lock %s of 0x%s lost after 1.5 s',"
        " gen_random_uuid(), first_offset)"
    )
    (cause,) = ops.summarise_units(conn, DlqFilter())
    assert (cause.group, cause.topic, cause.units) == ("billing", "orders", 2)
    assert cause.cause == "lock # of # lost after # s"
    assert [known([cause])] == [command("dlq", "summary")]
    assert offsets(conn, error_form=cause.cause) == [4, 1]
    assert offsets(conn, error_form="lock") == []
    conn.execute("update gapless.dead_letter set reason = 'other' where first_offset = 4")
    found = ops.summarise_units(conn, DlqFilter(), limit=1)
    assert [(each.units, each.total) for each in found] == [(1, 2)]
    day = found[0].failed.astimezone(UTC).date().isoformat()
    assert [each.cause for each in ops.summarise_units(conn, DlqFilter(), by="day")] == [day]
    conn.execute(
        "update gapless.dead_letter_event set event_type = 'paid' where c_offset in (1, 4)"
    )
    conn.execute("update gapless.dead_letter_event set event_type = 'sent' where c_offset = 2")
    types = ops.summarise_units(conn, DlqFilter(), by="type")
    assert [(each.cause, each.units) for each in types] == [("paid", 2)]
    assert offsets(conn, event_type="sent") == [1]
    assert ops.count_units(conn, DlqFilter(key="a")) == 1
    with pytest.raises(RefusedError, match='there is no group "x"'):
        ops.summarise_units(conn, DlqFilter(group="x"))


@pytest.mark.long
def test_show(conn: Connection, refused: None, command: Command) -> None:
    found = ops.show_unit(conn, GroupPlace.parse("billing/orders/0@2"))
    assert (found.unit.place, found.unit.last_offset, found.unit.events) == (FIRST, 2, 2)
    assert [event.offset for event in found.events] == [1, 2]
    assert found.events[0].payload == '{"total": 1.10}'
    assert (found.ahead, found.behind, found.same_transaction) == (None, [], [])
    told = command("dlq", "show", str(FIRST))
    assert told["offset"] == 1
    assert [event["offset"] for event in told["events"]] == [1, 2]
    assert len(ops.show_unit(conn, FIRST, events_max=1).events) == 1


def test_redrive_one(conn: Connection, refused: None) -> None:
    """By the place of any of its events; a second time is refused."""
    done = ops.redrive_unit(conn, GroupPlace.parse("billing/orders/0@2"), who="me")
    assert (done.place, done.outcome) == (FIRST, "asked")
    assert states(conn) == {1: "waiting", 4: "dead"}
    assert value(conn, "select redriven_by from gapless.dead_letter where first_offset = 1") == "me"
    with pytest.raises(RefusedError, match="was redriven already, by me") as caught:
        ops.redrive_unit(conn, FIRST)
    assert caught.value.sqlstate == "GL409"


def test_redrive_many(conn: Connection, refused: None) -> None:
    """In the order of their offsets, whatever order they are named in; outcomes are no errors."""
    told: list[int] = []
    gone = GroupPlace.parse("billing/orders/0@9")
    done = ops.redrive_units(conn, [gone, LAST, FIRST], progress=told.append)
    assert [(str(each.place), each.outcome) for each in done] == [
        ("billing/orders/0@1", "asked"),
        ("billing/orders/0@4", "asked"),
        ("billing/orders/0@9", "absent"),
    ]
    assert told == [3]
    assert states(conn) == {1: "waiting", 4: "waiting"}


def test_discard(conn: Connection, refused: None) -> None:
    with pytest.raises(UsageError, match="must say something"):
        ops.discard_unit(conn, FIRST, reason=" ")
    assert ops.discard_unit(conn, FIRST, reason="test data", who="me").outcome == "discarded"
    with pytest.raises(RefusedError, match=r"was discarded already, by me, .*: test data"):
        ops.discard_unit(conn, FIRST, reason="again")
    (done,) = ops.discard_units(conn, [LAST], reason="known")
    assert done.outcome == "discarded"
    assert states(conn) == {1: "discarded", 4: "discarded"}


def test_to_change_units_needs_autocommit(conn: Connection, refused: None, dsn: str) -> None:
    with psycopg.connect(dsn) as held:
        for act in (lambda: ops.redrive_unit(held, FIRST),):
            with pytest.raises(UsageError, match=r"redrive_units.. commits by itself"):
                act()


def test_export_and_import(conn: Connection, refused: None) -> None:
    lines = list(ops.export_units(conn, [LAST, FIRST]))
    assert [json.loads(line)["offset"] for line in lines] == [1, 4]
    assert '{"total": 1.10}' in lines[0]
    mended = [lines[0].replace("1.10", "1.20"), "", lines[1]]
    units = ops.parse_units(mended, "here")
    assert [(unit.source, unit.place) for unit in units] == [
        ("here line 1", FIRST),
        ("here line 3", LAST),
    ]
    assert ops.import_unit(conn, units[0]) == "mended"
    assert ops.show_unit(conn, FIRST).events[0].payload == '{"total": 1.20}'
    unknown = replace(units[1], place=replace(LAST, offset=9))
    assert ops.import_unit(conn, unknown) == "absent"


@pytest.mark.parametrize(
    "payload",
    [
        "[" * 2000 + "]" * 2000,
        '{"a": ' * 2000 + "1" + "}" * 2000,
        '"][}{,\\" \\\\"',
        '{"a": [1, "}"], "b": {}, "a": -0.10e+4}',
        "[]",
        "1" * 5000,
        '"\\ud800"',
    ],
)
def test_each_letter_that_was_exported_is_imported(
    conn: Connection, refused: None, payload: str
) -> None:
    stored = '{"total": 1.10}'
    for _ in range(2):  # the second time as it was exported with that payload
        (line,) = ops.export_units(conn, [FIRST])
        assert f'"payload": {stored}' in line
        (unit,) = ops.parse_units([line.replace(stored, payload)], "here")
        assert unit.events[0].payload == payload
        assert ops.import_unit(conn, unit) == "mended"
        stored = payload


def test_the_letters_beside_it_cost_an_import_nothing(conn: Connection, dsn: str) -> None:
    """Ten thousand are taken in as fast, each, as ten."""
    ops.create_topic(conn, "many", partitions=1)
    events = [NewEvent(payload=n, key="a", transaction_id=str(UUID(int=n))) for n in range(300)]
    publish(conn, "many", events)

    @handler(topic="many", group="none", on_failure="dead-letter")
    def refuse(unit: Unit, conn: Connection) -> None:
        raise ValueError("no")

    drain(dsn, refuse)
    place = GroupPlace.parse("none/many/0@150")
    (unit,) = ops.parse_units(ops.export_units(conn, [place]), "here")
    with cost(conn) as spent:
        assert ops.import_unit(conn, unit) == "mended"
    assert spent.tables["dead_letter_event"].idx_tup_fetch < 10
    assert spent.tables["dead_letter_event"].seq_tup_read == 0


def test_publish_anew(conn: Connection, refused: None) -> None:
    (unit,) = ops.parse_units(ops.export_units(conn, [FIRST]), "here")
    before = value(conn, "select count(*) from gapless.outbox_message_t")
    ops.republish_unit(conn, unit)
    rows = conn.execute(
        "select key, payload::text, headers from gapless.outbox_message_t order by id desc limit 2"
    ).fetchall()
    assert rows == [("a", '{"total": 1.10}', {"h": 1})] * 2
    assert value(conn, "select count(*) from gapless.outbox_message_t") == before + 2


def test_a_line_that_is_no_unit(conn: Connection) -> None:
    with pytest.raises(UsageError, match=r"here line 2 is not a unit .* 'group' is missing"):
        ops.parse_units(["", "{}"], "here")
