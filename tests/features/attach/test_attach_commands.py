"""gapless attach: its verbs; what doctor and status say of attached tables."""

import psycopg
import pytest

from gapless.log.topics import Topic

TABLE = 'public."Order Lines"'


@pytest.fixture
def box(conn: psycopg.Connection, topic: Topic) -> psycopg.Connection:
    conn.execute(f"create table {TABLE} (id bigserial primary key, who text, body jsonb)")
    conn.execute(f"insert into {TABLE} (who, body) values ('a', '1'), ('b', '2')")
    return conn


@pytest.mark.long
def test_the_whole_way(gapless, box: psycopg.Connection) -> None:
    assert gapless("attach").err == (
        "gapless: no table is attached: gapless attach add TABLE TOPIC\n"
    )
    words = ("attach", "add", TABLE, "outbox", "--map", "key=who, payload=body,headers=")
    assert gapless(*words, "--dry-run").out == (
        f"would copy 2 rows of {TABLE} into outbox, ids 1 to 2 by id, 0 missing; "
        "columns: key=who, payload=body\n"
    )
    plan = gapless(*words, "--dry-run", "--json").json
    assert (plan["rows"], plan["missing_ids"], plan["dry_run"]) == (2, 0, True)
    done = gapless(*words)
    assert done.out == (
        f"2 rows of {TABLE} copied into outbox; new rows are copied as they are inserted\n"
    )
    assert gapless(*words, "--json").json == {
        "table": TABLE, "topic": "outbox", "copied": 0, "late": 0
    }  # fmt: skip
    (found,) = gapless("attach", "list", "--json").json
    assert (found["id"], found["copied_to"], found["groups"]) == ("id", 2, [])
    assert found["columns"]["headers"] is None

    made = gapless("attach", "group", TABLE, "old", "--place", "2")
    assert made.out == "group old is paused where the old consumer is\n"
    moved = gapless("attach", "switch", TABLE, "old", "--place", "2")
    assert moved.out == "group old handles the events from now on, the old consumer none\n"
    again = gapless("attach", "switch", TABLE, "old", "--place", "2", "--json").json
    assert again == {"group": "old", "changed": False}
    assert "old: switched" in gapless("attach").out
    assert gapless("attach", "back", TABLE, "old").out == (
        "the old consumer of old continues with id 2; the group is paused\n"
    )
    back = gapless("attach", "back", TABLE, "old", "--json").json
    assert back == {"group": "old", "changed": False, "places": None}

    gone = gapless("attach", "remove", TABLE)
    assert gone.out == f"{TABLE} is attached no more; its events and groups stay\n"
    assert gapless("attach", "remove", TABLE, "--json").json == {"table": TABLE, "changed": False}


def test_light_portal(gapless, conn: psycopg.Connection, topic: Topic) -> None:
    conn.execute(
        "create table public.consumer_offsets (group_id varchar(255), topic_id int,"
        " partition_id int, next_offset bigint)"
    )
    conn.execute(
        "create table public.outbox_message_t (host_id uuid, c_offset bigint unique, payload jsonb)"
    )
    gapless("attach", "add", "public.outbox_message_t", "outbox", "--light-portal")
    (found,) = gapless("attach", "--json").json
    assert found["id"] == "c_offset"
    assert found["places"] == {
        "table": "public.consumer_offsets", "group": "group_id", "next": "next_offset",
        "partition": "partition_id",
    }  # fmt: skip


@pytest.mark.long
def test_doctor_and_status_name_it(gapless, box: psycopg.Connection) -> None:
    gapless("attach", "add", TABLE, "outbox", "--map", "key=who,payload=body")
    assert "1 attached table, every row is published" in gapless("doctor").out
    assert gapless("status", "--json").json["attachments"] == []
    box.execute(f"drop trigger gapless_attach on {TABLE}")
    remedy = f"gapless attach mend '{TABLE}'"
    (found,) = gapless("status", "--json").json["attachments"]
    assert found == {"table": TABLE, "problem": "its trigger is gone", "remedy": remedy}
    assert f"attachment of {TABLE}: its trigger is gone: {remedy}" in gapless("status").lines
    seen = gapless("doctor")
    assert f"{TABLE}: its trigger is gone" in seen.out
    assert seen.code == 1
    box.execute(f"insert into {TABLE} (who, body) values ('c', '3')")
    mended = gapless("attach", "mend", TABLE)
    assert mended.out == f"{TABLE}: copied 1 row that had been missed\n"
