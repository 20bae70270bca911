"""What cannot be attached: one sentence each, with what to do; and nothing is left behind."""

from time import monotonic, sleep

import pytest
from psycopg import Connection

from gapless.errors import RefusedError
from gapless.features.attach.ops import (
    AttachRequest,
    attach_table,
    detach_table,
    list_attachments,
    mend_attachment,
    plan_attachment,
)
from gapless.features.attach.switch import hand_back, place_group
from gapless.log.topics import Topic, ensure_topic
from support.patience import patience

MADE = """
create table public.t (id int primary key, key text, n int);
create table public.orderless (id int primary key, n int);
create table public.places (group_id text, next_offset bigint);
insert into public.t values (1, 'k', 1);
"""


@pytest.fixture
def made(conn: Connection, topic: Topic) -> Connection:
    conn.execute(MADE)
    return conn


def nothing_is_left(conn: Connection) -> None:
    assert list_attachments(conn) == []
    assert conn.execute("select count(*) from gapless.audit").fetchone() == (0,)


@pytest.mark.parametrize(
    ("change", "said"),
    [("update public.t set n = 2", "updated"), ("delete from public.t", "deleted")],
)
def test_a_table_whose_rows_change(made: Connection, change: str, said: str) -> None:
    """By the server's statistics, which come a moment later."""
    made.execute(change.encode())
    wish = AttachRequest(table="public.t", topic="outbox")

    def refused() -> bool:
        try:
            plan_attachment(made, wish)
        except RefusedError as error:
            return f"rows of t were {said}" in str(error)
        return False

    give_up_s = monotonic() + patience(30)
    while not refused():
        assert monotonic() < give_up_s
        sleep(0.05)
    with pytest.raises(RefusedError, match=f"were {said}, and the log has a row as it was insert"):
        attach_table(made, wish)
    nothing_is_left(made)
    attach_table(made, AttachRequest(table="public.t", topic="outbox", despite_changes=True))


def test_what_is_not_attached(made: Connection, dsn: str) -> None:
    said = '"public.t" is not attached: gapless attach lists the attached tables'
    with pytest.raises(RefusedError, match=said):
        mend_attachment(made, "public.t")
    with pytest.raises(RefusedError, match=said):
        place_group(made, "public.t", "g", dsn=dsn)
    with pytest.raises(RefusedError, match=said):
        hand_back(made, "public.t", "g", dsn=dsn)
    attach_table(made, AttachRequest(table="public.t", topic="outbox"))
    said = 'group "g" stands for no old consumer of public.t: gapless attach lists those that do'
    with pytest.raises(RefusedError, match=said):
        hand_back(made, "public.t", "g", dsn=dsn)
    assert detach_table(made, "public.t")
    assert not detach_table(made, "public.t")
    with pytest.raises(RefusedError, match='there is no table "nope"'):
        detach_table(made, "nope")


def test_a_place_that_makes_no_sense(made: Connection, dsn: str) -> None:
    wish = AttachRequest(table="public.t", topic="outbox", places={"table": "public.places"})
    attach_table(made, AttachRequest(table="public.t", topic="outbox"))
    with pytest.raises(RefusedError, match=r"say where the old consumer is, the id that is next"):
        place_group(made, "public.t", "g", dsn=dsn)
    attach_table(made, wish)
    with pytest.raises(RefusedError, match=r"is is read from public.places, so no place is said"):
        place_group(made, "public.t", "g", dsn=dsn, place=1)
    with pytest.raises(RefusedError, match=r'public.places has no place of "g"'):
        place_group(made, "public.t", "g", dsn=dsn)
    made.execute("insert into public.places values ('g', 1), ('g', 2)")
    with pytest.raises(
        RefusedError, match='"g" has places of partitions 0, 0, and the topic has 4'
    ):
        place_group(made, "public.t", "g", dsn=dsn)
    assert made.execute("select count(*) from gapless.consumer_group").fetchone() == (0,)


def test_a_group_that_is_there(made: Connection, dsn: str) -> None:
    attach_table(made, AttachRequest(table="public.t", topic="outbox"))
    made.execute("select gapless.create_group('g', 'outbox', 'earliest')")
    with pytest.raises(RefusedError, match=r'there is a group "g" of topic "outbox" already'):
        place_group(made, "public.t", "g", dsn=dsn, place=1)


def test_a_group_before_the_end_is_copied(made: Connection, dsn: str) -> None:
    made.execute("select gapless.attach('public.t', 'outbox', null, null, null, false)")
    with pytest.raises(RefusedError, match=r"public.t is not copied to its end yet"):
        place_group(made, "public.t", "g", dsn=dsn, place=1)


def test_one_partition_needs_no_key(made: Connection) -> None:
    ensure_topic(made, "single", partitions=1)
    attach_table(made, AttachRequest(table="public.orderless", topic="single"))
