"""What is done for one partition of a group is done there alone, and looks see no other one.

Two groups consume two topics of three partitions each, and everything is the same everywhere: offsets,
units set aside, calls going on, even epochs and tokens. So a condition that is missing in some function
of SQL shows: a row elsewhere changes, or is seen.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence

TABLES = (
    "consumer_offsets", "lease", "delivery", "dead_letter", "dead_letter_event", "dead_letter_key",
    "group_pause",
)  # fmt: skip
UNIT = {"delivery", "dead_letter", "dead_letter_event", "dead_letter_key"}
MEMBER = UUID("00000000-0000-0000-0000-00000000000a")
TOKEN = UUID("00000000-0000-0000-0000-00000000000b")
PARTITION = 1
EPOCH = 5
HERE = "group_id = %(group)s and topic_id = %(topic_id)s and partition_id = %(partition)s"
MEMBERS = (
    "insert into gapless.member (member_id, name, ttl, expires_at, backend_pid)"
    " values (%s, 'm', '1 hour', 'infinity', 0)"
)
OFFSETS = (
    "select set_config('gapless.seeking', pg_current_xact_id()::text, true);"
    "update gapless.consumer_offsets set next_offset = 4, attempt_offset = 4, attempts = 2,"
    f" epoch = {EPOCH}, token = '{TOKEN}', installed_offset = 2"
)
LEASES = (
    f"update gapless.lease set target = '{MEMBER}', owner = '{MEMBER}', epoch = {EPOCH},"
    f" token = '{TOKEN}'"
)
LETTERS = (
    "select gapless.set_aside(s.group_id, s.topic_id, s.partition_id, u.n,"
    " array[(select m.message_ids[u.n - m.base_offset + 1] from gapless.log_segment m"
    " where m.topic_id = s.topic_id and m.partition_id = s.partition_id"
    " and u.n between m.base_offset and m.last_offset)], u.state, 'why', 'trace', _parks => u.parks)"
    " from gapless.consumer_offsets s, (values (1, 'dead', true), (2, 'waiting', false),"
    " (3, 'parked', true)) u (n, state, parks)"
)
# As set_partitions() writes them, from 3 to 1: nobody has come to the barriers, at offset 6.
LAYOUTS = (
    "with wanted as (select topic_id from gapless.topic where name = %(topic)s),"
    " made as (insert into gapless.layout (topic_id, layout, partitions)"
    " select topic_id, n, 3 - 2 * n from wanted, generate_series(0, 1) n)"
    " insert into gapless.barrier (topic_id, layout, partition_id, last_offset)"
    " select topic_id, 0, p, 6 from wanted, generate_series(0, 2) p"
)
CRASHES = "update gapless.dead_letter set crashes = 1"
DELIVERIES = (
    "insert into gapless.delivery select group_id, topic_id, partition_id, n, n, 1, 1, false"
    " from gapless.consumer_offsets, generate_series(4, 5) n"
)

# What is done, and to which units; what is said to be done to none, changes nothing of units.
DEEDS: dict[str, tuple[str, set[int]]] = {
    "record_attempt": ("record_attempt({fence})", set()),
    "forget_attempt": ("forget_attempt({fence})", set()),
    "install_fence": ("install_fence({fence})", set()),
    "acquire": ("acquire({place}, %(member)s, gen_random_uuid())", set()),
    "release": ("release({place}, %(token)s)", set()),
    "disown": ("disown(%(member)s, {place})", set()),
    "report_error": ("report_error({place}, %(token)s, 'no')", set()),
    "record_try": ("record_try({fence}, 2)", {2}),
    "forget_try": ("forget_try({fence}, 2)", {2}),
    "claim_letter": ("claim_letter({fence}, 2)", {2}),
    "letter_failed": ("letter_failed({fence}, 2, 'dead', 'why', 'trace')", {2}),
    "redrive_letter": ("redrive_letter({named}, 1)", {1}),
    "discard_letter": ("discard_letter({named}, 1, 'of no use')", {1, 3}),
    "release_keys": ("release_keys({place}, 1)", {1, 3}),
    "forget_letters": ("forget_letters({place}, 2)", {2, 3, 4, 5}),
    "set_aside": ("set_aside({place}, 3, {ids}, 'waiting', 'why', 'trace')", {3}),
    "note_deliveries": (
        "note_deliveries({fence}, 4, '{{4}}', '{{4}}', '{{6}}', '{{6}}', 5)", {4, 6},
    ),
    "forget_deliveries": ("forget_deliveries({fence})", {4, 5}),
    "move_offset": ("move_offset({named}, 4, 3)", {3, 4, 5}),
    "stop_beyond": ("stop_beyond({fence}, 3)", set()),
    "skip_overrun": ("skip_overrun({fence}, 'latest')", set()),
    "pause": ("pause({named})", set()),
    "claim": ("claim_at({fence}, 1, 0, null)", set()),
    "claim_ahead": ("claim_ahead({fence}, 4, 4, null)", set()),
}  # fmt: skip
MAY_DO_NOTHING = {"skip_overrun"}  # nothing was dropped here

# What is empty, or false, where nothing was set aside and nothing is paused.
LOOKS = {
    "letters_due": "select * from gapless.letters_due({place})",
    "holds_keys": "select 1 where gapless.holds_keys({place})",
    "is_paused": "select 1 where gapless.is_paused({place})",
    "key_heads": "select h.* from gapless.dead_letter_key k,"
    " gapless.key_heads({place}, k.key_digest) h",
    "is_behind": "select 1 from gapless.dead_letter_key k"
    " where gapless.is_behind({place}, 4, k.key_digest)",
    "parked_after": "select * from gapless.parked_after({place}, 1)",
    "sum_letters": "select 1 where gapless.sum_letters({place}, 1) <> '{{}}'",
    "blockers": "select * from gapless.blockers({place}, 1)",
    "redrive_letter": "select 1 where gapless.redrive_letter({named}, 1) <> 'absent'",
    "discard_letter": "select 1 where gapless.discard_letter({named}, 1, 'no') <> 'absent'",
    "record_try": "select 1 where gapless.record_try({fence}, 2) <> 0",
    "claim_letter": "select outcome from gapless.claim_letter({fence}, 2) where outcome <> 'gone'",
}
FENCED = {
    "record_attempt": "select 1 where gapless.record_attempt({fence}) is not null",
    "record_try": "select 1 where gapless.record_try({fence}, 2) is not null",
    "claim_letter": "select 1 from gapless.claim_letter({fence}, 2) where outcome <> 'fenced'",
    "letter_failed": "select 1 where gapless.letter_failed({fence}, 2, 'dead', 'why', 'trace')",
    "claim": "select 1 from gapless.claim_at({fence}, 1, 0, null) where outcome <> 'fenced'",
    "claim_ahead": "select 1 from gapless.claim_ahead({fence}, 4, 4, null)"
    " where claim_xid is not null",
    "note_deliveries": "select 1 from gapless.note_deliveries("
    "{fence}, 4, '{{4}}', '{{4}}', '{{6}}', '{{6}}', 5) where first_offset is not null",
    "install_fence": "select 1 where gapless.install_fence({place}, %(epoch)s + 1, gen_random_uuid())"
    " is not null",
}  # fmt: skip


class World:
    """The place that is meant, `billing/orders/1`, and eleven others like it."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        for topic in ("other", "orders"):
            conn.execute("select gapless.create_topic(%s, 3)", [topic])
            for group in ("mail", "billing"):
                conn.execute("select gapless.create_group(%s, %s, 'earliest')", [group, topic])
            for partition in range(3):
                self._fill(topic, partition)
        conn.execute(MEMBERS, [MEMBER])
        for statement in (OFFSETS, LEASES, LETTERS, CRASHES, DELIVERIES):
            conn.execute(statement)  # type: ignore[arg-type]
        (self.topic_id,) = self.rows("select topic_id from gapless.topic where name = 'orders'")[0]

    def _fill(self, topic: str, partition: int) -> None:
        find = (
            "select 'k' || n from generate_series(1, 100) n"
            " where gapless.partition_of('k' || n, 3) = %s limit 1"
        )
        ((key,),) = self.conn.execute(find, [partition]).fetchall()  # type: ignore[arg-type]
        for _ in range(6):
            publish(self.conn, topic, NewEvent(payload=1, key=key))
        sequence(self.conn)

    @property
    def params(self) -> dict[str, object]:
        return {
            "group": "billing", "topic": "orders", "topic_id": self.topic_id,
            "partition": PARTITION, "epoch": EPOCH, "token": TOKEN, "member": MEMBER,
        }  # fmt: skip

    def run(self, statement: str) -> list[Any]:
        """Run a statement in which {place}, {fence} and {named} stand for arguments."""
        place = "%(group)s, %(topic_id)s, %(partition)s"
        named = "%(group)s, %(topic)s, %(partition)s"
        ids = (
            "array[(select message_ids[3] from gapless.log_segment"
            " where topic_id = %(topic_id)s and partition_id = %(partition)s)]"
        )
        words = {
            "place": place, "fence": f"{place}, %(epoch)s, %(token)s", "named": named, "ids": ids,
        }  # fmt: skip
        return self.rows(statement.format(**words), self.params)

    def rows(self, statement: str, params: Any = None) -> list[Any]:
        return self.conn.execute(statement, params).fetchall()

    def elsewhere(self, units: set[int]) -> dict[str, list[Any]]:
        """All rows that are of another place, or of another unit of this one."""
        other = dict.fromkeys(TABLES, f"not ({HERE})")
        for table in UNIT:
            other[table] = f"not ({HERE} and first_offset = any (%(units)s))"
        return self._all(other, units)

    def here(self) -> dict[str, list[Any]]:
        return self._all(dict.fromkeys(TABLES, HERE), set())

    def _all(self, wheres: dict[str, str], units: set[int]) -> dict[str, list[Any]]:
        return {
            table: self.rows(
                f"select to_jsonb(t)::text from gapless.{table} t where {where} order by 1",
                {**self.params, "units": list(units)},
            )
            for table, where in wheres.items()
        }


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[World]:
    with connect(module_dsn, role="test") as conn:
        yield World(conn)


@pytest.fixture
def world(shared: World) -> Iterator[World]:
    """The same at the begin of each test."""
    with shared.conn.transaction(force_rollback=True):
        yield shared


@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_is_done_here_alone(world: World, name: str) -> None:
    call, units = DEEDS[name]
    elsewhere, here = world.elsewhere(units), world.here()
    world.run(f"select * from gapless.{call}")
    assert world.elsewhere(units) == elsewhere
    assert world.here() != here or name in MAY_DO_NOTHING


def test_a_unit_that_is_handled_again_ends_here_alone(world: World) -> None:
    elsewhere = world.elsewhere({2})
    ((outcome, xid, *_),) = world.run("select * from gapless.claim_letter({fence}, 2)")
    assert outcome == "claimed"
    assert world.run(f"select gapless.finish_letter({{place}}, 2, '{xid}')") == [(True,)]
    assert world.elsewhere({2}) == elsewhere
    assert world.run(f"select 1 from gapless.dead_letter where {HERE} and first_offset = 2") == []


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_sees_no_other_place(world: World, name: str) -> None:
    """All others have units set aside, and are paused."""
    for table in UNIT:
        world.run(f"delete from gapless.{table} where {HERE} returning 1")
    for whole in ("'mail'", "'billing', 'other'", "'billing', 'orders', 0"):
        world.conn.execute(f"select gapless.pause({whole})")
    world.conn.execute(LAYOUTS, {"topic": "other"})
    assert world.run(LOOKS[name]) == []
    assert world.run("select outcome from gapless.claim_at({fence}, 1, 0, null)") == [("claimed",)]


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_sees_what_is_here(world: World, name: str) -> None:
    """The same look, where there is something to see: else the test above says nothing."""
    if name == "blockers":
        world.conn.execute(LAYOUTS, {"topic": "orders"})
    if name == "is_paused":
        world.run("select gapless.pause({named})")
    if name in {"letters_due", "record_try", "claim_letter"}:
        world.run(
            "update gapless.dead_letter set next_attempt_ts = '-infinity'"
            f" where {HERE} and first_offset = 2 returning 1"
        )
    assert world.run(LOOKS[name])


@pytest.mark.parametrize("what", ["epoch = epoch + 1", "token = gen_random_uuid()"])
@pytest.mark.parametrize("name", FENCED)
def test_no_other_places_fence_lets_anybody_in(world: World, name: str, what: str) -> None:
    """I7: everywhere else the epoch and the token are those that are given."""
    world.run(f"update gapless.consumer_offsets set {what} where {HERE} returning 1")
    if name == "install_fence" and what.startswith("token"):
        return  # the older epoch is what keeps it out
    before = world.here()
    assert world.run(FENCED[name]) == []
    assert world.here() == before
