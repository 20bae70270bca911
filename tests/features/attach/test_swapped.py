"""Columns of an attached table that have changed their names, before one of them is dropped (I1, I4).

Nobody ran `gapless attach mend` in between: what was noted is their names of before.
"""

from dataclasses import replace

import pytest
from psycopg import Connection

from features.attach.outbox import MADE, WISH, attach, everything, fill
from gapless.errors import RefusedError
from gapless.features.attach.ops import list_attachments, mend_attachment
from gapless.log.topics import Topic

KEYS = "select array_agg(key order by id) from gapless.outbox_message_t"
ROW = "insert into public.box (customer) values ('7')"


def swap(conn: Connection, one: str, other: str) -> None:
    """Give each of two columns the name of the other."""
    for old, new in ((one, "third"), (other, one), ("third", other)):
        conn.execute(f"alter table public.box rename {old} to {new}".encode())


@pytest.fixture
def box(conn: Connection, topic: Topic) -> Connection:
    """A table whose key's column was dropped, once the payload's had its name."""
    conn.execute(MADE)
    fill(conn, 1, 1)
    attach(conn)
    swap(conn, "customer", "body")
    conn.execute("insert into public.box (body, customer) values ('c2', '2')")
    assert conn.execute(KEYS).fetchone() == (["c1", "c2"],), "by their numbers"
    conn.execute("alter table public.box drop body")
    return conn


def test_the_other_one_is_not_taken_for_it(box: Connection) -> None:
    box.execute(ROW)
    assert everything(box) == [1, 2]
    said = 'column "customer" of public.box is gone, from which the key was copied'
    assert box.execute("select rows, error from gapless.attached_miss").fetchall() == [(1, said)]
    (found,) = list_attachments(box)
    assert found.problem == 'column "customer" (key) is gone: nothing is copied'
    assert found.remedy == (
        "gapless attach add public.box outbox --id id --map key=COLUMN,payload=customer"
    )


def test_another_one_is_named_and_takes_its_place(box: Connection) -> None:
    box.execute("alter table public.box add client text")
    box.execute("insert into public.box (client, customer) values ('c3', '3')")
    assert attach(box, replace(WISH, map={"key": "client", "payload": "customer"})).late == 1
    box.execute("insert into public.box (client, customer) values ('c4', '4')")
    assert everything(box) == [1, 2, 3, 4], "each once"
    assert box.execute(KEYS).fetchone() == (["c1", "c2", "c3", "c4"],)
    (found,) = list_attachments(box)
    assert found.problem is None


def test_nor_is_another_one_taken_for_the_id(conn: Connection, topic: Topic) -> None:
    conn.execute("create table public.box (id int primary key, customer int unique, body jsonb)")
    attach(conn)
    swap(conn, "id", "customer")
    conn.execute("alter table public.box drop customer")
    conn.execute("insert into public.box (id, body) values (5, '1')")
    assert everything(conn) == []
    (found,) = list_attachments(conn)
    assert found.problem == 'column "id" (id) is gone: nothing is copied'
    assert found.remedy == "gapless attach remove public.box, then add it anew"
    with pytest.raises(RefusedError, match="is gone that gave its rows their order"):
        mend_attachment(conn, "public.box")
    conn.execute("create unique index on public.box (id)")
    with pytest.raises(RefusedError, match=r"is attached already, .*remove public\.box ends that"):
        attach(conn, replace(WISH, id="id", map={"payload": "body", "key": "body"}))
