"""What is given up, or counted, of ids that nobody made: of one id, and what a run has seen, alone.

Two ids have events, between those of a topic, and one of them has one that no run has seen. Each test is
taken back.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.sequence import sequence

EVENTS = (
    "insert into gapless.outbox_message_t (topic_id, payload) select t, '1'"
    " from unnest(array[77, %(orders)s, 78, 78, 77, %(orders)s, 78]) with ordinality u (t, n) order by n"
)
UNSEEN = "insert into gapless.outbox_message_t (topic_id, payload) values (77, '1')"
# The rows of both ids become the one of further ids.
SHARED = (
    "with gone as (delete from gapless.unrouted returning *) insert into gapless.unrouted"
    " select 0, sum(events), min(first_id), max(last_id) + 1000, min(since_ts) from gone"
)
# How runs remember what they saw: by ids up to the floor, or by xids.
SEEN = {
    "xids": "update gapless.sequencer set floor_id = 0",
    "ids": "update gapless.sequencer set snapshot = '1:1:', floor_id = {last}",
    "nothing": "update gapless.sequencer set snapshot = '1:1:', floor_id = 0",
}


class Strays:
    """The log, in one session; all that a test does is taken back."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        self.orders = int(self.value("select gapless.create_topic('orders', 1)"))
        conn.execute(EVENTS, {"orders": self.orders})
        sequence(conn)
        self.last = int(self.value("select max(id) from gapless.outbox_message_t"))

    def value(self, statement: str) -> Any:
        row = self.conn.execute(statement).fetchone()  # type: ignore[arg-type]
        return None if row is None else row[0]

    def counts(self) -> dict[int, int]:
        """How many events are there, by their ids of topics."""
        query = "select topic_id, count(*) from gapless.outbox_message_t group by 1"
        return dict(self.conn.execute(query).fetchall())

    def strays(self) -> dict[int, tuple[int, int, int]]:
        """What is known of each id: how many events, and their first and last id, counted from the first of all."""
        query = (
            "select topic_id, events, first_id - %s, last_id - %s from gapless.unrouted order by 1"
        )
        first = self.last - 6
        return {row[0]: row[1:] for row in self.conn.execute(query, [first, first])}


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Strays]:
    with connect(module_dsn, role="test") as conn:
        yield Strays(conn)


@pytest.fixture
def world(shared: Strays) -> Iterator[Strays]:
    """The same at the begin of each test."""
    with shared.conn.transaction(force_rollback=True):
        yield shared


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize(
    ("which", "left", "gone"),
    [("77", {77: 1, 78: 3}, 2), ("78", {77: 3}, 3), ("null", {77: 1}, 5)],
)
def test_what_is_given_up(
    world: Strays, which: str, left: dict[int, int], gone: int, seen: str
) -> None:
    world.conn.execute(UNSEEN)
    strays, before = world.strays(), world.counts()
    assert strays == {77: (2, 0, 4), 78: (3, 2, 6)}
    world.conn.execute(SEEN[seen].format(last=world.last))  # type: ignore[arg-type]
    discarded = {77, 78} if which == "null" else {int(which)}
    if seen == "nothing":
        left, gone = {77: before[77], 78: before[78]}, 0
    assert world.value(f"select gapless.discard_unrouted({which})") == gone
    assert world.counts() == left | {world.orders: 2}
    assert world.strays() == {each: row for each, row in strays.items() if each not in discarded}
    audits = world.conn.execute(
        "select topic_id, detail from gapless.audit where action = 'discard-unrouted' order by 1"
    )
    assert audits.fetchall() == [(each, {"events": strays[each][0]}) for each in sorted(discarded)]


def test_one_of_further_ids_is_given_up(world: Strays) -> None:
    world.conn.execute(SHARED)
    assert world.value("select gapless.discard_unrouted(77)") == 2
    assert world.strays() == {0: (3, 0, 1006)}
    assert world.counts() == {78: 3, world.orders: 2}


@pytest.mark.parametrize("seen", ["xids", "ids"])
def test_what_is_counted_of_further_ids(world: Strays, seen: str) -> None:
    world.conn.execute(UNSEEN)
    world.conn.execute(SHARED)
    world.conn.execute(SEEN[seen].format(last=world.last))  # type: ignore[arg-type]
    everything = {0: (5, 0, 1006)}
    assert world.strays() == everything
    for nobody in (0, 79, world.orders + 1000):
        assert world.value(f"select gapless.list_unrouted({nobody})") is None
        assert world.strays() == everything
    assert world.value("select gapless.list_unrouted(77)") == 2
    assert world.strays() == {0: (3, 0, 1006), 77: (2, 0, 4)}
    assert world.value("select gapless.list_unrouted(77)") == 2
    assert world.value("select gapless.list_unrouted(78)") == 3
    assert world.strays() == {77: (2, 0, 4), 78: (3, 2, 6)}
    assert world.value("select gapless.list_unrouted(79)") is None
    assert world.value("select count(distinct since_ts) from gapless.unrouted") == 1
