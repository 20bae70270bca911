"""Whom a group that passes a barrier wakes, and who is told of a pause and of more partitions.

It is said only once it is committed: so each test begins by making all rows anew.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.waiting import in_thread, until_waiting

TOKEN = "00000000-0000-0000-0000-00000000000b"
HOLDER = "00000000-0000-0000-0000-00000000000a"
TOPICS = """
select gapless.create_topic(t, 3) from unnest('{still,wakes}'::text[]) t;
select gapless.create_group(g, t) from unnest('{audit,billing}'::text[]) g, unnest('{still,wakes}'::text[]) t;
"""
# Topics that had three partitions and have two: the last one has a barrier that both others may wait for.
# All others of a group, and all other groups, are where this one is not: they have passed it, or have not.
RESET = """
delete from gapless.lease; delete from gapless.consumer_offsets; delete from gapless.group_pause;
delete from gapless.barrier; delete from gapless.layout; delete from gapless.audit;
update gapless.topic set partitions = 2, partitions_ever = 3, layout = 1;
insert into gapless.layout (topic_id, layout, partitions)
select topic_id, l, 3 - l from gapless.topic, generate_series(0, 1) l;
insert into gapless.barrier (topic_id, layout, partition_id, last_offset)
select topic_id, 0, p, 5 from gapless.topic, generate_series(0, 2) p;
insert into gapless.consumer_offsets (group_id, topic_id, partition_id, next_offset, passed, epoch, token)
select g.group_id, g.topic_id, p, case t.name when 'wakes' then 9 else 1 end,
  case when t.name = 'wakes' and g.group_id = 'billing' and p = 2 then {passed} else 1 - {passed} end, 5, '{token}'
from gapless.consumer_group g join gapless.topic t using (topic_id), generate_series(0, 2) p
order by t.name = 'wakes' and g.group_id = 'billing', p;
insert into gapless.lease (group_id, topic_id, partition_id)
select group_id, topic_id, partition_id from gapless.consumer_offsets;
insert into gapless.group_pause (group_id, topic_id) select group_id, topic_id from gapless.consumer_group;
"""


class Ear:
    """Hears what its own session says, as soon as that has committed."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        self.heard: list[tuple[str, str]] = []
        conn.add_notify_handler(lambda each: self.heard.append((each.channel, each.payload)))
        conn.execute(TOPICS)
        self.topic_id = self.value("select gapless.topic_id('wakes')")
        groups = "select group_no, group_id from gapless.consumer_group"
        self.groups = dict(conn.execute(groups).fetchall())
        channels = [f"gapless_p_{self.topic_id}_{partition}" for partition in range(3)]
        channels += [f"gapless_g_{number}" for number in self.groups] + ["gapless_sequencer"]
        for channel in channels:
            conn.execute(f"listen {channel}")

    def value(self, statement: str) -> Any:
        ((value,),) = self.conn.execute(statement).fetchall()
        return value

    def reset(self, passed: int = 0) -> None:
        with self.conn.transaction():
            self.conn.execute(RESET.format(passed=passed, token=TOKEN))
        self.heard.clear()

    def hear(self, call: str, *, passed: int = 0) -> list[tuple[str, str]]:
        """Make all anew, and return what is said of a call."""
        self.reset(passed)
        self.conn.execute(f"select gapless.{call.format(id=self.topic_id)}")
        return sorted(self.heard)


@pytest.fixture(scope="module")
def ear(module_dsn: str) -> Iterator[Ear]:
    with connect(module_dsn, role="test") as conn:
        yield Ear(conn)


WAKING = {
    "passed": f"pass_barrier('billing', {{id}}, 2, 5, '{TOKEN}')",
    "entered": "enter_layout('billing', {id}, 2, 1)",
    "retired": "retire('billing', {id})",
}


@pytest.mark.parametrize("passed", [0, 1])
@pytest.mark.parametrize("name", WAKING)
def test_those_that_waited_are_woken(ear: Ear, name: str, passed: int) -> None:
    """Once: who has passed it has said so."""
    woken = [(f"gapless_p_{ear.topic_id}_{partition}", "") for partition in (0, 1)]
    assert ear.hear(WAKING[name], passed=passed) == ([] if passed else woken)


@pytest.mark.parametrize("fence", [f"6, '{TOKEN}'", f"4, '{TOKEN}'", f"5, '{HOLDER}'"])
def test_who_is_no_owner_wakes_nobody(ear: Ear, fence: str) -> None:
    assert ear.hear(f"pass_barrier('billing', {{id}}, 2, {fence})") == []


@pytest.mark.parametrize(
    ("call", "word"),
    [("pause('billing')", "pause"), (f"resume('billing', holder => '{HOLDER}')", "resume")],
)
def test_members_are_told_in_all_topics(ear: Ear, call: str, word: str) -> None:
    """Whether or not anything is another way than before."""
    numbers = [number for number, group in ear.groups.items() if group == "billing"]
    assert ear.hear(call) == sorted((f"gapless_g_{number}", word) for number in numbers)


def test_the_sequencer_is_told_of_more_partitions(ear: Ear) -> None:
    assert ear.hear("set_partitions('still', 4)") == [("gapless_sequencer", "")]


@pytest.mark.parametrize("fence", ["epoch = 6", "token = gen_random_uuid()"])
def test_who_lost_the_partition_meanwhile_says_nothing_of_it(
    ear: Ear, module_dsn: str, fence: str
) -> None:
    """The next owner's fence is there, and commits while this one waits for the row."""
    ear.reset()
    here = f"group_id = 'billing' and topic_id = {ear.topic_id} and partition_id = 2"
    call = f"select gapless.{WAKING['passed'].format(id=ear.topic_id)}"
    with connect(module_dsn, role="test") as conn:
        conn.execute("begin")
        conn.execute(f"update gapless.consumer_offsets set {fence} where {here}")
        with in_thread(lambda: ear.conn.execute(call)) as done:
            until_waiting(conn, "transactionid")
            conn.execute("commit")
            done.result()
    assert ear.value(f"select passed from gapless.consumer_offsets where {here}") == 0
