"""Keys: any text is one, the same key is always in the same partition, and none stops the log."""

from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from support.examples import examples
from support.log import assert_gapless, placed

# hashtext() of this text is -2147483648, whose abs() does not exist in int4. Found by trying all
# keys "k<number>" in C; about one text in 4 294 967 296 is like that.
SMALLEST_HASH = "k9046133555"
LONG = "x" * 10_000
KEYS = [
    "AA",
    "aa",
    "Aa",
    "",
    " ",
    "ü",
    "u\u0308",  # the same letter, another text
    "日本語",
    "🛩",
    "o'hare",
    '"quoted"',
    "back\\slash",
    "tab\tnew\nline",
    "\\N",
    "%s",
    "null",
    LONG,
    "00000000-0000-0000-0000-000000000001",
    SMALLEST_HASH,
]
PINNED = {"": 3, "a": 1, "AA": 1, "aa": 5, "ü": 4, "UA-14228": 7, LONG: 1}


def test_the_key_with_the_smallest_hash_has_a_partition(conn: Connection) -> None:
    topic = ensure_topic(conn, "outbox", partitions=3)
    hashed = conn.execute("select hashtext(%s)", [SMALLEST_HASH]).fetchone()
    assert hashed == (-(2**31),)
    publish(conn, topic.name, 1, key=SMALLEST_HASH, event_type="it")
    publish(conn, topic.name, 1, key="other")
    assert sequence(conn) == 2
    assert "it" in [event.tag for event in placed(conn)[1, 2**31 % 3]]


@pytest.mark.parametrize("key", PINNED, ids=lambda key: key[:8])
def test_a_key_never_moves(conn: Connection, key: str) -> None:
    """Were the hash changed, events of one key would lie in two partitions and lose their order."""
    row = conn.execute("select gapless.partition_of(%s, 8)", [key]).fetchone()
    assert row == (PINNED[key],)


@pytest.mark.parametrize("way", ["publish", "copy", "insert"])
def test_any_text_is_a_key_and_comes_back_as_it_was(
    conn: Connection, topic: Topic, way: str
) -> None:
    for _ in range(2):
        _publish_keys(conn, way)
        assert sequence(conn) == len(KEYS)
    assert_gapless(placed(conn))
    found: dict[str, list[int]] = {}
    for partition in range(topic.partitions):
        for (key,) in conn.execute("select key from gapless.read('outbox', %s)", [partition]):
            found.setdefault(key, []).append(partition)
    assert found == {key: [found[key][0]] * 2 for key in KEYS}


def _publish_keys(conn: Connection, way: str) -> None:
    if way == "publish":
        for key in KEYS:
            publish(conn, "outbox", 0, key=key)
    elif way == "insert":
        conn.cursor().executemany(
            "insert into gapless.outbox_message_t (key) values (%s)", [[key] for key in KEYS]
        )
    else:
        with conn.cursor().copy("copy gapless.outbox_message_t (key) from stdin") as copy:
            for key in KEYS:
                copy.write_row([key])


def test_what_stands_in_for_a_key(conn: Connection, topic: Topic) -> None:
    """Without key it is the host, then the transaction_id, then the database transaction."""
    unit = UUID(int=7)
    with conn.transaction():
        publish(conn, "outbox", 0, event_type="host", host_id="h", transaction_id=unit)
        publish(conn, "outbox", 0, event_type="unit", transaction_id=unit)
        for _ in range(5):
            publish(conn, "outbox", 0, event_type="xid")
        xid = conn.execute("select pg_current_xact_id()::text").fetchone()
    assert xid is not None
    sequence(conn)
    for tag, stands_in in [("host", "h"), ("unit", str(unit)), ("xid", xid[0])]:
        row = conn.execute("select gapless.partition_of(%s, 4)", [stands_in]).fetchone()
        assert row is not None
        where = {p for (_, p), events in placed(conn).items() for e in events if e.tag == tag}
        assert where == {row[0]}, tag


def test_a_partition_is_one_of_the_topics(conn: Connection) -> None:
    @settings(
        max_examples=examples(300),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        key=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        partitions=st.integers(1, 4096),
    )
    def check(key: str, partitions: int) -> None:
        row = conn.execute("select gapless.partition_of(%s, %s)", [key, partitions]).fetchone()
        assert row is not None
        assert 0 <= row[0] < partitions

    check()
