"""The SQL of what was set aside: redrive, discard, and who is parked behind whom."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from gapless.consume.session import run, run_at_commit, transaction
from gapless.log.event import NewEvent
from support.plans import pages
from support.world import Group, World


class Letters:
    """Units set aside by hand: every event is a unit of its own, at offset n with key keys[n - 1]."""

    def __init__(self, world: World, group: Group, keys: list[str]) -> None:
        self.world, self.group = world, group
        for key in keys:
            world.events([NewEvent(payload={}, key=key)])
        self.ids = world.rows("select id from gapless.outbox_message_t order by id")

    def aside(self, offset: int, state: str, **more: Any) -> None:
        self.on(self.world.conn, offset, state, **more)

    def on(self, conn: psycopg.Connection, offset: int, state: str, **more: Any) -> None:
        named = "".join(f", _{name} => %({name})s" for name in more)
        conn.execute(
            "select gapless.set_aside(%(group)s, %(topic)s, 0, %(offset)s, %(ids)s::bigint[],"
            f" %(state)s, 'why', 'trace'{named})",
            {
                "group": self.group.name,
                "topic": self.world.topic.topic_id,
                "offset": offset,
                "ids": list(self.ids[offset - 1]),
                "state": state,
                **more,
            },
        )

    def discard(self, offset: int, conn: psycopg.Connection | None = None) -> str:
        return self._ask("discard_letter", offset, conn, ", 'of no use', 'ann'")

    def redrive(self, offset: int, conn: psycopg.Connection | None = None) -> str:
        return self._ask("redrive_letter", offset, conn, ", 'ann'")

    def _ask(self, name: str, offset: int, conn: psycopg.Connection | None, more: str) -> str:
        row = (
            (conn or self.world.conn)
            .execute(
                f"select gapless.{name}(%s, %s, 0, %s{more})",
                [self.group.name, self.world.topic.name, offset],
            )
            .fetchone()
        )
        assert row is not None
        return str(row[0])

    def states(self) -> dict[int, str]:
        return dict(
            self.world.rows(
                "select first_offset, state from gapless.dead_letter where group_id = %s order by 1",
                self.group.name,
            )
        )


@pytest.fixture
def letters(world: World, group: Group) -> Letters:
    return Letters(world, group, ["a", "b", "a", "a", "c"])


@pytest.fixture
def other(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn) as conn:
        yield conn


@pytest.mark.long
def test_a_unit_in_a_persons_hand_is_waited_for(
    group: Group, letters: Letters, other: psycopg.Connection
) -> None:
    """A later one must not be handled before it."""
    letters.aside(1, "waiting")
    place = {**group.assignment.params, "first_offset": 1}
    assert letters.redrive(1, other) == "asked"
    group.conn.execute("set lock_timeout = '200ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable), transaction(group.conn):
        run(group.conn, "claim_letter", place)
    other.commit()
    with transaction(group.conn):
        ((outcome, xid, *_),) = run(group.conn, "claim_letter", place)
        run_at_commit(group.conn, "finish_letter", {**place, "claim_xid": xid, "settings": None})
    assert outcome == "claimed"


def test_many_parked_behind_one_key_cost_no_more_each(letters: Letters) -> None:
    """Also as long as the tables were never analysed; pages are counted, not time."""
    conn = letters.world.conn
    for table in ("dead_letter", "dead_letter_event", "dead_letter_key"):
        conn.execute(f"alter table gapless.{table} set (autovacuum_enabled = false)")
    letters.world.conn.execute(
        "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset,"
        " last_offset, events, transaction_id, state, parks, attempts, reason, exception)"
        " select %s, %s, 0, n, n, 1, gen_random_uuid(), case n when 1 then 'dead' else 'parked' end,"
        " true, 1, '', '' from generate_series(1, 1000) n",
        [letters.group.name, letters.world.topic.topic_id],
    )
    conn.execute(
        "insert into gapless.dead_letter_key"
        " select group_id, topic_id, partition_id, 'k', first_offset from gapless.dead_letter"
    )
    where = f"'{letters.group.name}', {letters.world.topic.topic_id}, 0"
    hundred = f"select gapless.settle_parked({where}, array(select generate_series(901, 1000)))"
    assert pages(conn, hundred) < 100 * 30  # type: ignore[arg-type]
    assert pages(conn, f"select gapless.release_keys({where}, 1)") < 200  # type: ignore[arg-type]
    assert letters.states()[2] == "waiting"


@pytest.mark.long
def test_parked_behind_one_that_is_discarded_right_now(
    letters: Letters, other: psycopg.Connection
) -> None:
    """Both orders of the race: nobody stays parked behind nobody."""
    letters.aside(1, "dead", parks=True)
    letters.on(other, 3, "parked")  # a batch that has seen 1 in front, and goes on
    assert letters.discard(1) == "discarded"
    settle = "select gapless.settle_parked(%s, %s, 0, '{3}')"
    other.execute(settle, [letters.group.name, letters.world.topic.topic_id])
    other.commit()
    assert letters.states() == {1: "discarded", 3: "waiting"}

    letters.on(other, 4, "parked")
    other.execute(settle.replace("3", "4"), [letters.group.name, letters.world.topic.topic_id])
    letters.world.conn.execute("set lock_timeout = '300ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        letters.discard(3)  # would miss what is parked and not committed
    other.commit()
    assert letters.discard(3) == "discarded"
    assert letters.states() == {1: "discarded", 3: "discarded", 4: "waiting"}


def test_to_follow_costs_the_same_however_many_are_parked(world: World, group: Group) -> None:
    """Else a thousand parked units would need a million look-ups until all have followed."""
    calls = (
        "select coalesce(sum(calls), 0)::int from pg_stat_xact_user_functions"
        " where funcname = 'layout_of'"
    )
    parked = 60
    letters = Letters(world, group, ["a"] * (parked + 1))
    letters.aside(1, "dead", parks=True)
    for offset in range(2, parked + 2):
        letters.aside(offset, "parked")
    with world.conn.transaction():
        world.conn.execute("set local track_functions = 'all'")
        assert letters.discard(1) == "discarded"
        assert world.value(calls) < 5
    assert letters.states()[2] == "waiting"
