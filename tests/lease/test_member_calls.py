"""What a member writes of itself, listens to, and does for each of its groups; two of everything."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from psycopg import Connection

from gapless.db.listen import heard
from gapless.errors import RefusedError
from gapless.lease.member import Lease, Member, ServedTopic, Timing, create_group
from gapless.log.filter import Filter
from gapless.log.topics import ensure_topic
from support.cast import TIMING, Cast

PRESENCE = 7427002
Pair = tuple[str, str]
ALL = [("g", "orders"), ("g", "stock"), ("h", "orders"), ("h", "stock")]


class Staff:
    """Members of groups of two topics, each of two partitions."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self.conn = cast.conn
        self.ids = {
            name: ensure_topic(cast.conn, name, partitions=2).topic_id
            for name in ("orders", "stock")
        }

    def wanted(self, *places: Pair, **more: Any) -> list[ServedTopic]:
        return [
            ServedTopic(group_id=group, topic=topic, topic_id=self.ids[topic], **more)
            for group, topic in places
        ]

    def member(self, *places: Pair, conn: Connection[Any] | None = None, **said: Any) -> Member:
        options: dict[str, Any] = {"name": "m", "capacity": None} | said
        timing = options.pop("timing", TIMING)
        return Member(conn or self.cast.session(), self.wanted(*places), timing, **options)

    def rows(self, statement: str, *params: object) -> list[Any]:
        return self.conn.execute(statement, params).fetchall()  # type: ignore[arg-type]

    def targets(self) -> dict[tuple[str, str, int], UUID | None]:
        """Whom each partition is meant for."""
        return {
            row[:3]: row[3]
            for row in self.rows(
                "select l.group_id, t.name, l.partition_id, l.target from gapless.lease l"
                " join gapless.topic t using (topic_id)"
            )
        }

    def places_of(self, member: Member) -> set[Pair]:
        return {
            (each.group_id, each.topic)
            for each in member.leases()
            if each.target == member.member_id
        }

    def groups_of(self, member: Member) -> list[Pair]:
        return self.rows(
            "select mg.group_id, t.name from gapless.member_group mg"
            " join gapless.topic t using (topic_id) where mg.member_id = %s order by 1, 2",
            member.member_id,
        )

    def hears(self, session: Connection[Any]) -> list[Pair]:
        """Of which groups a session hears what is told to them."""
        groups = self.rows(
            "select g.group_id, t.name, g.group_no from gapless.consumer_group g"
            " join gapless.topic t using (topic_id) order by 1, 2"
        )
        session.execute("select 1")
        heard(session)
        for group, topic, number in groups:
            self.conn.execute(
                "select pg_notify(%s, %s)", [f"gapless_g_{number}", f"{group}/{topic}"]
            )
        session.execute("select 1")
        said = set(heard(session))
        return [(group, topic) for group, topic, _ in groups if f"{group}/{topic}" in said]


@pytest.fixture
def staff(cast: Cast) -> Staff:
    return Staff(cast)


def test_a_member_is_written_down_as_it_said(staff: Staff) -> None:
    session = staff.cast.session()
    made = staff.member(
        *ALL[:3], conn=session, name="here", capacity=5, partitions_per_worker=3, sessions=4,
        timing=Timing(ttl_ms=1500, suspect_grace_ms=7, reconnect_grace_ms=9),
    )  # fmt: skip
    other = staff.member(ALL[3], name="there")
    columns = "name, capacity, partitions_per_worker, sessions, ttl, backend_pid, state"
    found = f"select {columns} from gapless.member where member_id = %s"
    pid = session.info.backend_pid
    assert staff.rows(found, made.member_id) == [
        ("here", 5, 3, 4, timedelta(milliseconds=1500), pid, "active")
    ]
    assert staff.groups_of(made) == ALL[:3]
    assert staff.rows(found, other.member_id)[0][:4] == ("there", None, 1, 2)
    assert staff.groups_of(other) == ALL[3:]
    assert staff.hears(session) == ALL[:3]


def test_a_number_that_a_stranger_holds_is_left_to_him(staff: Staff) -> None:
    """The row of a member never exists without the lock of its number."""
    stranger = staff.cast.session()
    first = staff.member(ALL[0])
    for n in (1, 2):
        stranger.execute("select pg_advisory_lock(%s, %s)", [PRESENCE, first._member_no + n])
    session = staff.cast.session()
    made = staff.member(ALL[0], conn=session)
    (number,) = staff.rows(
        "select member_no from gapless.member where member_id = %s", made.member_id
    )
    assert number == (made._member_no,) == (first._member_no + 3,)
    holders = "select objid::int from pg_locks where classid = %s::oid and pid = %s and granted"
    assert staff.rows(holders, PRESENCE, session.info.backend_pid) == [number]


def test_each_group_is_planned(staff: Staff) -> None:
    made = staff.member(*ALL)
    assert set(staff.targets().values()) == {None}
    made.sync()
    assert staff.targets() == {(*place, n): made.member_id for place in ALL for n in (0, 1)}
    expected = [(*place, n) for place in ALL for n in (0, 1)]
    leases = made.leases()
    assert [(each.group_id, each.topic, each.partition_id) for each in leases] == expected
    assert {each.owner for each in leases} == {None}
    assert {each.is_paused for each in leases} == {False}
    assert leases[0].partition.topic_id == staff.ids["orders"]


def test_what_it_is_to_have_says_whether_it_is_paused(staff: Staff) -> None:
    made = staff.member(*ALL[:2])
    made.sync()
    staff.conn.execute("select gapless.pause('g', 'stock')")
    assert [each.is_paused for each in made.leases()] == [False, False, True, True]
    assert not Lease.__dataclass_fields__["is_paused"].default


def test_it_goes_over_to_other_groups(staff: Staff) -> None:
    """Whoever stays in one stays in it: its partitions are planned once, and nobody else's."""
    session = staff.cast.session()
    made, other = staff.member(*ALL[:2], conn=session), staff.member(ALL[3])
    made.sync()
    other.sync()
    create_group(staff.conn, staff.wanted(ALL[2])[0])
    made.change(staff.wanted(ALL[1], ALL[2], ("h", "stock")))
    assert staff.groups_of(made) == [ALL[1], ALL[2], ALL[3]]
    assert staff.groups_of(other) == ALL[3:]
    assert staff.places_of(made) == {ALL[1], ALL[2], ALL[3]}, "the new ones are planned at once"
    assert {who for place, who in staff.targets().items() if place[:2] == ALL[0]} == {None}
    assert {who for place, who in staff.targets().items() if place[:2] == ALL[3]} == {
        made.member_id,
        other.member_id,
    }
    assert set(staff.hears(session)) >= {ALL[1], ALL[2], ALL[3]}
    made.change(staff.wanted(ALL[1]))
    assert staff.groups_of(made) == [ALL[1]]
    assert staff.places_of(made) == {ALL[1]}
    made.change(staff.wanted(ALL[1], ("g", "orders")))
    assert staff.groups_of(made) == ALL[:2]


def test_who_drains_has_its_partitions_planned_for_others(staff: Staff) -> None:
    made = staff.member(*ALL[:2])
    assert made.has_peers() is False
    other = staff.member(*ALL[:2])
    assert made.has_peers() is True
    made.sync()
    assert staff.places_of(made) == set(ALL[:2])
    other.drain()
    assert made.has_peers() is False, "that one takes nothing any more"
    assert staff.places_of(other) == set()
    assert staff.places_of(made) == set(ALL[:2])
    states = "select state from gapless.member where member_id = %s"
    assert staff.rows(states, other.member_id) == [("draining",)]
    assert other.beat()


@pytest.mark.parametrize(
    "change",
    [
        "update gapless.consumer_group set planned_for = '{}' where group_id = 'h'",
        "update gapless.lease set target = null where group_id = 'h'",
        "select gapless.set_partitions('stock', 1)",
    ],
    ids=["plan", "unserved", "finished"],
)
def test_each_watches_the_groups_it_is_in(staff: Staff, change: str) -> None:
    """Else one group's work would wake every member of every other."""
    made, other = staff.member(ALL[0]), staff.member(ALL[3])
    made.sync()
    other.sync()
    assert not made.watch()
    assert not other.watch()
    staff.conn.execute(change)  # type: ignore[arg-type]
    assert not made.watch()
    assert other.watch()


def test_a_group_is_made_as_it_was_said(staff: Staff) -> None:
    (queue,) = staff.wanted(("q", "orders"), mode="queue", block=7, max_crashes=3)
    (ordered,) = staff.wanted(("o", "orders"), filter=Filter(("a",)))
    numbers = [create_group(staff.conn, each) for each in (queue, ordered, queue)]
    assert numbers[0] == numbers[2] != numbers[1]
    found = staff.rows(
        "select group_id, group_no, mode from gapless.consumer_group order by group_no"
    )
    assert found == [("q", numbers[0], "queue"), ("o", numbers[1], "ordered")]
    filters = staff.rows("select group_id, topic, event_types from gapless.filters")
    assert filters == [("o", "orders", ["a"])]
    assert type(numbers[0]) is int


def test_what_a_group_cannot_be_is_refused(staff: Staff) -> None:
    (queue,) = staff.wanted(("q", "orders"), mode="queue")
    create_group(staff.conn, queue)
    wrong = replace(queue, group_id="o", mode="ordered", filter=Filter(None, "$.x >"))
    with pytest.raises(RefusedError):
        create_group(staff.conn, wrong)
