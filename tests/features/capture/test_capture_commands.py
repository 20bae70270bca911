"""gapless capture: add, list, mend, remove; what doctor and status say of captured tables."""

import psycopg
import pytest

from gapless.errors import GaplessError
from gapless.features.capture import ops as captures
from gapless.log.topics import Topic

PROBLEM = "no trigger for delete"


@pytest.fixture
def orders(conn: psycopg.Connection, topic: Topic) -> psycopg.Connection:
    conn.execute('create table public."Order Lines" (id int primary key, n text)')
    return conn


TABLE = 'public."Order Lines"'


@pytest.mark.long
def test_add_list_mend_remove(gapless, orders: psycopg.Connection) -> None:
    assert gapless("capture").err == (
        "gapless: no table is captured: gapless capture add TABLE TOPIC\n"
    )
    done = gapless("capture", "add", TABLE, "outbox", "--key", "{n}", "--columns", "id, n")
    assert done.out == f"writes to {TABLE} are published into outbox\n"
    orders.execute(f"insert into {TABLE} values (1, 'a')")
    row = orders.execute("select key, payload -> 'new' from gapless.outbox_message_t").fetchone()
    assert row == ("a", {"id": 1, "n": "a"})
    (found,) = gapless("capture", "list", "--json").json
    assert found.pop("created_ts").startswith("20")
    assert found.pop("captured_by")
    assert found == {
        "table": TABLE, "topic": "outbox", "key": "{n}", "columns": ["id", "n"],
        "old": "changed", "problem": None, "remedy": None,
    }  # fmt: skip
    orders.execute(f"drop trigger gapless_capture_delete on {TABLE}")
    assert PROBLEM in gapless("capture").out
    assert gapless("capture", "mend", TABLE).out == f"{TABLE}: 1 trigger made or enabled\n"
    gone = gapless("capture", "remove", TABLE)
    assert gone.out == f"{TABLE} is captured no more; published events stay\n"
    again = gapless("capture", "remove", TABLE, "--json").json
    assert again == {"table": TABLE, "changed": False}


@pytest.mark.long
def test_doctor_and_status_name_it(gapless, orders: psycopg.Connection) -> None:
    gapless("capture", "add", TABLE, "outbox")
    assert "1 captured table, every change is published" in gapless("doctor").out
    assert gapless("status", "--json").json["captures"] == []
    orders.execute(f"drop trigger gapless_capture_delete on {TABLE}")
    remedy = f"gapless capture mend '{TABLE}'"
    (found,) = gapless("status", "--json").json["captures"]
    assert found == {"table": TABLE, "problem": PROBLEM, "remedy": remedy}
    assert f"capture of {TABLE}: {PROBLEM}: {remedy}" in gapless("status").lines
    seen = gapless("doctor")
    assert f"{TABLE}: {PROBLEM}" in seen.out
    assert seen.code == 1


@pytest.mark.long
def test_a_table_in_use_is_left_alone(
    gapless, orders: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captures, "LOCK_S_MAX", 1)
    with psycopg.connect(orders.info.dsn) as other:
        other.execute(f"insert into {TABLE} values (1)")
        with pytest.raises(
            GaplessError, match=r"another session has been using .* for 1 s: nothing was"
        ):
            captures.capture_table(orders, TABLE, "outbox")
    assert captures.list_captures(orders) == []
