"""A group in the place of an old consumer, and back: each event is handled once in all."""

from contextlib import suppress
from typing import Any

import pytest
from psycopg import Connection

from features.attach.outbox import MADE, attach, fill
from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.db.connect import connect
from gapless.errors import GaplessError, RefusedError, UsageError
from gapless.features.attach.ops import AttachRequest, list_attachments
from gapless.features.attach.switch import hand_back, place_group, switch_group
from gapless.log.topics import Topic
from gapless.testing import drain

WISH = AttachRequest(
    table="public.box",
    topic="outbox",
    map={"key": "customer", "payload": "body"},
    places={"table": "public.places", "group": "name", "last": "seen"},
)


class Old:
    """A consumer as applications have them: what is next by id, and how far it is, in a transaction."""

    def __init__(self, dsn: str, conn: Connection[Any]) -> None:
        self.dsn = dsn
        self.conn = conn
        conn.execute("create table handled (n serial, body int, who text)")
        conn.execute("create table public.places (name text primary key, seen bigint not null)")
        conn.execute("insert into public.places values ('g', 0)")

    def handle(self, most: int = 1_000) -> int:
        """Handle at most so many rows; return how many."""
        with self.conn.transaction():
            return self.conn.execute(
                "with place as (select seen from public.places where name = 'g' for update),"
                " next as (select id, body::int from public.box, place where id > seen"
                " order by id limit %s), done as (insert into handled (body, who)"
                " select body, 'old' from next order by id)"
                " update public.places set seen = (select max(id) from next)"
                " where name = 'g' and exists (select from next) and (select count(*) from next) >= 0",
                [most],
            ).rowcount

    def place(self) -> int:
        row = self.conn.execute("select seen from public.places").fetchone()
        assert row is not None
        return int(row[0])

    def group(self) -> None:
        """Let the group handle what it may."""

        @handler(topic="outbox", group="g")
        def write(unit: Unit, conn: Connection[Any]) -> None:
            for event in unit:
                conn.execute(
                    "insert into handled (body, who) values (%s, 'group')", [event.payload]
                )

        with suppress(UsageError):  # it is paused
            drain(self.dsn, write)

    def handled(self, who: str) -> list[int]:
        rows = self.conn.execute("select body from handled where who = %s order by n", [who])
        return sorted(body for (body,) in rows)


@pytest.fixture
def old(dsn: str, conn: Connection, topic: Topic) -> Old:
    conn.execute(MADE)
    made = Old(dsn, conn)
    fill(conn, 1, 30)
    attach(conn, WISH)
    return made


def test_the_whole_path(old: Old) -> None:
    conn, dsn = old.conn, old.dsn
    assert old.handle(10) == 1
    assert place_group(conn, "public.box", "g", dsn=dsn)
    old.group()
    assert old.handled("group") == [], "the old consumer handles them"
    fill(conn, 31, 40)
    old.handle(15)
    assert list_attachments(conn)[0].groups == ["g: ready"]
    assert switch_group(conn, "public.box", "g", dsn=dsn)
    assert old.handle() == 0, "its place is beyond all ids"
    fill(conn, 41, 50)
    old.group()
    assert old.handled("old") == list(range(1, 26))
    assert old.handled("group") == list(range(26, 51))
    assert not switch_group(conn, "public.box", "g", dsn=dsn)

    assert hand_back(conn, "public.box", "g", dsn=dsn) == [51] * 4
    assert hand_back(conn, "public.box", "g", dsn=dsn) is None
    fill(conn, 51, 60)
    old.group()
    old.handle()
    assert old.handled("old") == [*range(1, 26), *range(51, 61)]
    fill(conn, 61, 70)
    assert switch_group(conn, "public.box", "g", dsn=dsn)
    old.group()
    assert old.handle() == 0
    assert old.handled("group") == [*range(26, 51), *range(61, 71)]


def test_back_where_it_has_handled_part(old: Old) -> None:
    """Of one partition only: no id stands for that, and the group goes on as before."""
    conn, dsn = old.conn, old.dsn
    switch_group(conn, "public.box", "g", dsn=dsn)
    conn.execute(
        "update gapless.consumer_offsets c set next_offset = e.end_offset"
        " from gapless.log_ends(1, 0) e where c.partition_id = 0"
    )
    with pytest.raises(RefusedError, match=r'no id stands for where "g" is: .* when its lag is 0'):
        hand_back(conn, "public.box", "g", dsn=dsn, timeout_s=0)
    assert list_attachments(conn)[0].groups == ["g: switched"]
    assert conn.execute("select count(*) from gapless.group_pause").fetchone() == (0,)


@pytest.mark.long
def test_what_it_handled_has_no_offset_yet(old: Old) -> None:
    """Nobody has sequenced since: the switch does, or the group would handle that again."""
    conn, dsn = old.conn, old.dsn
    fill(conn, 31, 40)
    old.handle()
    assert switch_group(conn, "public.box", "g", dsn=dsn)
    old.group()
    assert (old.handled("old"), old.handled("group")) == (list(range(1, 41)), [])


def test_a_person_s_pause_stays(old: Old) -> None:
    conn, dsn = old.conn, old.dsn
    place_group(conn, "public.box", "g", dsn=dsn)
    conn.execute("select gapless.pause('g')")
    switch_group(conn, "public.box", "g", dsn=dsn)
    assert conn.execute("select count(*) from gapless.group_pause").fetchone() == (1,)


@pytest.mark.long
def test_the_old_consumer_is_in_the_middle(old: Old) -> None:
    conn, dsn = old.conn, old.dsn
    with connect(dsn, role="old") as busy, busy.transaction():
        busy.execute("update public.places set seen = 5")
        with pytest.raises(GaplessError, match=r"another session is using public.box: nothing was"):
            switch_group(conn, "public.box", "g", dsn=dsn, timeout_s=0)
    assert switch_group(conn, "public.box", "g", dsn=dsn)
    old.group()
    assert old.handled("group") == list(range(6, 31))
