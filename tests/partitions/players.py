"""A topic whose number of partitions changes, and groups that a test plays turn by turn.

Every event has a tag of its own, in event_type; a group writes what it handled to `effect`, a table
that refuses nothing. Times are counted by the test's own clock: one tick for each thing done.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

from psycopg import Connection

from gapless.consume.drive import Driver
from gapless.consume.read.backlog import Backlog
from gapless.consume.step import Step
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler, handler
from gapless.db.connect import connect
from gapless.db.listen import listen
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Lease, Member, ServedTopic, Timing
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.log import Published
from support.turn import one_step, turn

WAIT_S = 20.0

_HOUR_MS = 3_600_000
_TIMING = Timing(ttl_ms=_HOUR_MS, suspect_grace_ms=_HOUR_MS, reconnect_grace_ms=_HOUR_MS)
EFFECTS = """
create table effect (
  n bigint generated always as identity,
  group_id text, partition_id int, c_offset bigint, key text, tag text, unit bigint
)
"""
INSERT = (
    "insert into gapless.outbox_message_t (topic_id, key, event_type, payload)"
    " values (%s, %s, %s, '{}')"
)


class Players:
    """A topic with producers, an operator, and groups."""

    def __init__(self, conn: Connection, *, partitions: int = 4, name: str = "t") -> None:
        conn.execute(EFFECTS)
        self.conn = conn
        self.topic = ensure_topic(conn, name, partitions=partitions)
        self.published: dict[str, Published] = {}
        self.keys: dict[str, str] = {}
        self.groups: list[Group] = []
        self._clock = count(1)
        self._keys_of: dict[int, list[str]] = {}

    def tick(self) -> float:
        return float(next(self._clock))

    def insert(self, conn: Connection, *keys: str) -> list[str]:
        """Insert an event for each key in the open transaction of `conn`; return their tags."""
        tags = []
        for key in keys:
            tag = f"e{len(self.published)}"
            self.published[tag] = Published(tag, "", self.tick())
            self.keys[tag] = key
            conn.execute(INSERT, [self.topic.topic_id, key, tag])
            tags.append(tag)
        return tags

    def committed(self, tags: list[str]) -> None:
        """Note that the COMMIT of these events was answered."""
        at = self.tick()
        for tag in tags:
            self.published[tag].committed = at

    def publish(self, *keys: str, sequenced: bool = True) -> list[str]:
        """Publish in one transaction, and give the offsets."""
        with self.conn.transaction():
            tags = self.insert(self.conn, *keys)
        self.committed(tags)
        if sequenced:
            sequence(self.conn)
        return tags

    def change(self, partitions: int, conn: Connection | None = None) -> int:
        """Change the number of partitions; return the layout."""
        statement = "select gapless.set_partitions(%s, %s)"
        row = (conn or self.conn).execute(statement, [self.topic.name, partitions]).fetchone()
        assert row is not None
        return int(row[0])

    def key(self, partition: int, of: int) -> str:
        """A key of this partition under `of` partitions; the same one each time."""
        if of not in self._keys_of:
            found: dict[int, str] = {}
            for number in count():
                found.setdefault(self.place(f"k{number}", of), f"k{number}")
                if len(found) == of:
                    break
            self._keys_of[of] = [found[p] for p in range(of)]
        return self._keys_of[of][partition]

    def place(self, key: str, of: int) -> int:
        return int(self.value("select gapless.partition_of(%s, %s)", key, of))

    def group(self, name: str = "g", *, start: str = "earliest") -> Group:
        self.groups.append(Group(self, name, start))
        return self.groups[-1]

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement, params).fetchone()
        return None if row is None else row[0]

    def rows(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        return self.conn.execute(statement, params).fetchall()


class Group:
    """A group with this test as its only member and all of its workers."""

    def __init__(self, players: Players, name: str, start: str) -> None:
        topic = players.topic
        self.name = name
        self.players = players
        self.conn = players.conn
        wanted = ServedTopic(group_id=name, topic=topic.name, topic_id=topic.topic_id, start=start)
        self.member = Member(self.conn, [wanted], _TIMING, name="test", capacity=None)
        self.failing: set[str] = set()
        self.skipped: set[str] = set()
        if start == "latest":
            self.skipped = {row[0] for row in players.rows(_SEQUENCED, topic.topic_id)}
        self._held: dict[int, Assignment] = {}
        self._ahead: dict[int, Backlog] = {}

        @handler(topic=topic.name)
        def write(unit: Unit, conn: Connection[Any]) -> None:
            for event in unit:
                conn.execute(
                    "insert into effect (group_id, partition_id, c_offset, key, tag, unit)"
                    " values (%s, %s, %s, %s, %s, %s)",
                    [self.name, unit.partition, event.offset, event.key, event.event_type,
                     unit.first_offset],
                )  # fmt: skip
                if event.event_type in self.failing:
                    raise ValueError("refused")

        self.handler = write

    def leases(self) -> dict[int, Lease]:
        """What the newest plan gives us, by partition."""
        self.member.sync()
        return {lease.partition_id: lease for lease in self.member.leases()}

    def assignment(self, partition_id: int) -> Assignment:
        """Take the partition if it is not ours yet."""
        lease = self.leases()[partition_id]
        if lease.lease_no not in self._held:
            taken = hold.take(self.conn, lease.partition, self.member.member_id)
            assert taken is not None
            assert hold.install(self.conn, taken) is not None
            self._held[lease.lease_no] = taken
        return self._held[lease.lease_no]

    def turn(self, partition_id: int, *, batch_size: int = 100) -> Step:
        """One step of the worker of a partition, with what it read ahead in the one before."""
        assignment = self.assignment(partition_id)
        ahead = self._ahead.setdefault(partition_id, Backlog())
        return one_step(self.conn, assignment, self.handler, ahead, batch_size=batch_size)

    def drive(self, *partitions: int, what: Handler | None = None, **limits: Any) -> None:
        """Take turns as workers do, until nothing is left that is due."""
        for partition_id in partitions or self.leases():
            assignment = self.assignment(partition_id)
            driver = Driver(turn(self.conn, assignment, what or self.handler, **limits))
            while (outcome := driver.turn().outcome) != "idle" or driver.has_due():
                assert outcome != "fenced"

    def states(self) -> list[tuple[int, str]]:
        """Partition and state of each unit that was set aside."""
        return self.players.rows(
            "select partition_id, state from gapless.dead_letter where group_id = %s order by 1",
            self.name,
        )

    def drain(self) -> None:
        """Let all workers go on until none of them can."""
        while True:
            outcomes = [self.turn(partition).outcome for partition in self.leases()]
            assert "fenced" not in outcomes
            if "done" not in outcomes:
                return

    def offsets(self) -> dict[int, int]:
        return dict(
            self.players.rows(
                "select partition_id, next_offset from gapless.consumer_offsets"
                " where group_id = %s order by 1",
                self.name,
            )
        )

    def handled(self) -> list[str]:
        """The tags of all effects, in their order."""
        return [
            row[0]
            for row in self.players.rows(
                "select tag from effect where group_id = %s order by n", self.name
            )
        ]

    def assert_in_order(self) -> None:
        """Nothing twice, and each key in the order in which its events were published (I4)."""
        handled = self.handled()
        twice = [tag for tag, times in Counter(handled).items() if times > 1]
        assert not twice, f"handled twice: {twice[:5]}"
        by_key: dict[str, list[Published]] = {}
        for tag in handled:
            by_key.setdefault(self.players.keys[tag], []).append(self.players.published[tag])
        for key, events in by_key.items():
            for n, later in enumerate(events):
                for earlier in events[:n]:
                    assert later.committed is not None
                    assert later.committed >= earlier.inserted, (
                        f"key {key}: {earlier.tag} was handled before {later.tag}, "
                        "which had committed before the other one was inserted"
                    )

    def assert_all(self) -> None:
        """Exactly what was published was handled, or is dead, each once."""
        self.assert_in_order()
        dead = {
            row[0]
            for row in self.players.rows(
                "select event_type from gapless.dead_letter_queue where group_id = %s", self.name
            )
        }
        handled = set(self.handled())
        known = {tag for tag, event in self.players.published.items() if event.committed}
        assert not handled & dead
        assert handled | dead == known - self.skipped


_SEQUENCED = """
select o.event_type from gapless.log_segment s
cross join unnest(s.message_ids) u (id)
join gapless.outbox_message_t o on o.id = u.id
where s.topic_id = %s
"""


def one_key_each(players: Players, of: int) -> list[str]:
    return [players.key(partition, of) for partition in range(of)]


def begun(players: Players, partitions: int) -> Group:
    """A group with one event to handle in each of 4 partitions, then one in each of the new."""
    players.publish(*one_key_each(players, 4))
    players.change(partitions)
    players.publish(*one_key_each(players, partitions))
    return players.group()


def heard(players: Players, conn: Connection) -> set[int]:
    """The partitions whose workers were notified, of all that was committed so far."""
    players.conn.execute("notify done")
    channels = []
    for notify in conn.notifies(timeout=WAIT_S):
        if notify.channel == "done":
            return {int(channel.rpartition("_")[2]) for channel in channels}
        channels.append(notify.channel)
    raise AssertionError("the notification of the end did not come")


def listener(players: Players, dsn: str, partitions: int) -> Connection:
    conn = connect(dsn, role="listener")
    listen(conn, "done")
    for partition in range(partitions):
        listen(conn, f"gapless_p_{players.topic.topic_id}_{partition}")
    return conn
