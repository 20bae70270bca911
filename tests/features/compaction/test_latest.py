"""What is kept: the newest event of each key, whatever happens to the log and its partitions."""

from random import Random

import psycopg
import pytest

from features.compaction.kept import DELETED, Kept
from gapless import ops
from gapless.db.connect import connect
from gapless.errors import RefusedError
from gapless.log.sequence import sequence
from gapless.log.topics import set_partitions
from support.waiting import in_thread, until_waiting

HOST = "0ad2e5a4-22a3-4b5c-8e3e-3c3b7e2f1a10"
KEYS = [f"key {n}" for n in range(12)]


OF_LATEST = ("topic_id", "key_digest", "partition_id", "c_offset", "timeline")
PUT = (
    "insert into gapless.outbox_message_t (topic_id, key, host_id, payload)"
    " select %s, k, h, p::json from unnest(%s::text[], %s::text[], %s::text[]) e (k, h, p) returning id"
)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_is_the_fold_of_whatever_was_inserted(kept: Kept, seed: int) -> None:
    """Any keys, hosts in any spelling, texts of null, units, steps and changes of partitions."""
    random, world = Random(seed), kept.world
    expected: dict[str, int] = {}
    keyless = 0
    for n in range(20):
        keys = random.choices([None, "k", "K", "ключ", "x" * 3000, HOST], k=random.randint(1, 30))
        hosts = [random.choice([None, "h", HOST, HOST.upper(), f"{{{HOST}}}"]) for _ in keys]
        texts = [random.choice([None, " null\n", "[null]", '"null"', "0", "{}"]) for _ in keys]
        ids = world.rows(PUT, world.topic.topic_id, keys, hosts, texts)
        for key, host, text, (message_id,) in zip(keys, hosts, texts, ids, strict=True):
            keeps = key or (host and host.strip("{}").lower())
            expected.pop(keeps or "", None)
            keyless += keeps is None
            if keeps and text and text.strip() != "null":
                expected[keeps] = message_id
        sequence(world.conn)
        if n % 7 == 5:
            set_partitions(world.conn, world.topic.name, random.randint(1, 5))
        if random.random() < 0.5:
            world.value("select gapless.compact(%s)", random.randint(1, 60))
    kept.compact(random.randint(1, 60))
    rows = world.rows(
        "select l.id, to_jsonb(l) - %s::text[] from gapless.latest l", list(OF_LATEST)
    )
    assert dict(rows) == dict(
        world.rows(
            "select o.id, to_jsonb(o) - '{topic_id}'::text[] from gapless.outbox_message_t o"
            " where o.id = any (%s)",
            list(expected.values()),
        )
    )
    info = kept.info()
    assert (info["keys"], info["keyless"], info["lag"]) == (len(expected), keyless, 0)


def test_tombstone_that_moved_is_not_undone_by_what_it_deletes(kept: Kept) -> None:
    """The new partition may not be taken in before the old one is (barriers)."""
    world = kept.world
    kept.put(*[(key, "old") for key in KEYS])
    set_partitions(world.conn, world.topic.name, 4)
    kept.put(*[(key, DELETED) for key in KEYS])
    # The old partition waits: somebody has it.
    with connect(world.dsn, role="test") as other:
        other.execute("begin")
        other.execute("select from gapless.compaction where partition_id = 0 for update")
        kept.compact()
        assert kept.info()["lag"] == 24
        other.execute("rollback")
    kept.compact()
    assert kept.latest() == kept.fold() == {}
    assert kept.info()["keys"] == 0


def test_long_key_is_kept_too(kept: Kept) -> None:
    """Longer than an entry of an index may be, and not to be compressed."""
    key = "".join(chr(0x4E00 + n * 7 % 20000) for n in range(5000))
    kept.put((key, 1), (key, 2))
    kept.compact()
    found = ops.find_latest(kept.world.conn, kept.world.topic.name, key)
    assert found is not None
    assert (found.offset, found.payload, found.key) == (2, 2, key)


def test_switched_off_the_rows_go_in_steps_and_it_can_be_switched_on_again(kept: Kept) -> None:
    world, name = kept.world, kept.world.topic.name
    kept.put(*[(key, 1) for key in KEYS])
    kept.compact()
    ops.alter_topic(world.conn, name, compact=False)
    with pytest.raises(RefusedError, match="is not compacted"):
        ops.find_latest(world.conn, name, "key 1")
    kept.put(("key 1", DELETED))
    with pytest.raises(RefusedError, match="still being removed"):
        ops.alter_topic(world.conn, name, compact=True)
    (info,) = ops.list_compactions(world.conn)
    assert not info.is_on
    # Whoever looked before it was switched off, and has the lock now.
    assert world.value("select gapless.compact_partition(%s, 0, 9)", world.topic.topic_id) == 0
    assert kept.compact(5) == 3
    assert world.rows("select from gapless.latest") == []
    assert kept.info() is None
    ops.alter_topic(world.conn, name, compact=True)
    kept.compact()
    assert kept.latest() == kept.fold()
    assert "key 1" not in kept.latest()
    # Whoever looked before it was switched on again.
    assert world.value("select gapless.forget_latest(%s, 99)", world.topic.topic_id) == 0
    assert kept.latest() == kept.fold()


def test_retention_drops_what_was_taken_in_and_nothing_else(kept: Kept) -> None:
    kept.put(*[(key, n) for n in range(2) for key in KEYS])
    assert kept.drop() == []
    ((reasons,),) = kept.world.rows(
        "select reasons from gapless.retention_plan() order by upto limit 1"
    )
    assert [each for each in reasons if "compaction of topic orders has yet to take in 24" in each]
    kept.compact()
    assert len(kept.drop()) >= 1
    assert {key: value for key, (_, _, value) in kept.latest().items()} == dict.fromkeys(KEYS, 1)


def test_one_transaction_at_a_time_has_a_partition_and_sees_it_switched_off(kept: Kept) -> None:
    """A step that began before does not put rows in after the last was removed."""
    kept.put(("a", 1))
    name = kept.world.topic.name
    kept.world.conn.execute("set statement_timeout = '60s'")  # a wait for the other has no end
    with connect(kept.world.dsn, role="test") as other:
        other.execute("begin")
        other.execute("select gapless.compact()")
        kept.world.value("select gapless.set_compaction(%s, false)", name)
        assert kept.world.value("select gapless.compact()") == 0
        other.execute("commit")
    kept.compact()
    assert kept.world.rows("select from gapless.latest") == []
    assert kept.info() is None


def test_a_topic_stays_as_long_as_something_is_kept_of_it(kept: Kept) -> None:
    """A session that deletes the rest of it, by hand, waits for an open step, and is refused."""
    world, name = kept.world, kept.world.topic.name
    kept.put(("a", 1), ("b", 1))
    others = world.rows(
        "select conrelid::regclass::text from pg_constraint"
        " where contype = 'f' and confrelid = 'gapless.topic'::regclass"
    )
    delete = ";".join(f"delete from {table}" for (table,) in [*others, ("gapless.topic",)])

    def drop() -> None:
        with connect(world.dsn, role="test") as conn, conn.transaction():
            conn.execute(delete.encode())

    with connect(world.dsn, role="test") as other:
        other.execute("begin")
        assert other.execute("select gapless.compact()").fetchone() == (2,)
        with in_thread(drop) as dropped:
            until_waiting(world.conn, "transactionid")
            other.execute("commit")
            with pytest.raises(psycopg.errors.ForeignKeyViolation, match=f"{name} --no-compact"):
                dropped.result()
    world.value("select gapless.set_compaction(%s, false)", name)
    assert world.value("select gapless.compact(1)") == 1
    with pytest.raises(psycopg.errors.ForeignKeyViolation, match=f"{name} --no-compact"):
        drop()
    kept.compact()
    drop()
    assert world.rows("select from gapless.topic") == []
