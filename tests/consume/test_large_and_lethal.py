"""Units that are larger than memory should hold, and units that kill their worker (I5, I8)."""

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless import failpoints
from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.log.sequence import sequence
from support.long import long_but
from support.world import Group, World, make_handler

CHILD = Path(__file__).parents[1] / "support" / "programs" / "child.py"
EVENTS = 100_000
RSS_MB_MAX = 250

# Insertion order is offset order: one transaction, one partition.
INSERT = """
insert into gapless.outbox_message_t (topic_id, key, payload)
select %s, 'k', json_build_object('n', n, 'text', repeat('x', 1000))
from generate_series(1, %s) n order by n
"""


def child(group: Group, mode: str) -> subprocess.CompletedProcess[str]:
    fields = json.dumps(asdict(group.assignment), default=str)
    return subprocess.run(
        [sys.executable, str(CHILD), mode, group.world.dsn, fields],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


class TestLarge:
    @pytest.fixture
    def one_big_unit(self, world: World) -> None:
        world.conn.execute(INSERT, [world.topic.topic_id, EVENTS])
        assert sequence(world.conn) == EVENTS

    @pytest.mark.long
    @pytest.mark.slow
    @pytest.mark.parametrize("mode", long_but(["stream", "refuse"], "stream"))
    @pytest.mark.usefixtures("one_big_unit")
    def test_is_streamed_and_not_held(self, world: World, group: Group, mode: str) -> None:
        """100 000 events of 1 KB in one transaction, read twice, or refused and dead-lettered."""
        ended = child(group, mode)
        assert ended.returncode == 0, ended.stderr
        result = json.loads(ended.stdout)
        assert result["rss_mb"] < RSS_MB_MAX, f"{result['before_mb']} MB before"
        assert group.next_offset() == EVENTS + 1
        assert result["seen"] == [EVENTS] * (2 if mode == "stream" else 4)
        assert result["dead"] == (mode == "refuse")
        letters = world.rows(
            "select count(*), min(c_offset), max(c_offset), sum(length(payload::text)) > 1e8"
            " from gapless.dead_letter_queue"
        )
        assert letters == [(EVENTS, 1, EVENTS, True) if mode == "refuse" else (0, None, None, None)]

    @pytest.mark.few(2)
    @pytest.mark.parametrize("stream_above", [1, 9, 10, 1000])
    def test_above_the_limit_it_is_all_the_same(
        self, world: World, group: Group, stream_above: int
    ) -> None:
        sizes = [10, 1, 9, 11, 1, 1, 2500, 10, 3]
        world.units(*sizes)
        seen: list[tuple[int, list[int], list[int], int, str]] = []

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            first = [event.offset for event in unit]
            again = [event.offset for event in unit]
            seen.append((len(unit), first, again, unit.last_offset, repr(unit)))
            assert {event.transaction_id for event in unit} == {unit.transaction_id}
            if unit.first_offset == 1:
                raise ValueError("refused")

        group.drain(make_handler(handle), batch_size=20, stream_above_events=stream_above)
        assert [size for size, *_ in seen[1:]] == sizes
        for size, first, again, last, text in seen:
            assert first == again == list(range(last - size + 1, last + 1))
            assert text == f"Unit(orders/0@{first[0]}..{last})"
        assert list(group.letters()) == list(range(1, 11))

    @pytest.mark.parametrize("events", [40, 2500])
    def test_it_may_be_read_amid_a_pipeline(self, world: World, group: Group, events: int) -> None:
        """What the handler has sent and nobody has answered is not taken for events."""
        world.units(events, 3)
        insert = "insert into effect (group_id, c_offset, unit_first) values (%s, %s, %s)"

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            with conn.pipeline():
                for event in unit:
                    conn.execute(insert, [group.name, event.offset, unit.first_offset])

        group.drain(make_handler(handle), stream_above_events=10)
        group.assert_all_once(events + 3)
        assert group.letters() == {}


@pytest.mark.invariant("I8")
class TestLethal:
    def test_is_known_by_its_attempts(self, world: World, group: Group) -> None:
        """I8: SIGKILL at the third event, three times; then it is dead unseen, and all goes on."""
        world.units(1, 1, 2, 1)
        for attempt in (1, 2, 3):
            assert child(group, "kill").returncode == -signal.SIGKILL
            assert group.next_offset() == 3
            assert world.rows("select attempt_offset, attempts from gapless.consumer_offsets") == [
                (3, attempt)
            ]
        ended = child(group, "kill")
        assert ended.returncode == 0, ended.stderr
        group.assert_all_once(5)
        assert group.letters() == dict.fromkeys(
            (3, 4), "its worker died, or lost its session, 3 times while handling it"
        )
        assert group.letters_have("attempts") == {3}

    def test_the_attempt_is_there_before_the_handler_runs(self, world: World, group: Group) -> None:
        world.units(1, 1)
        seen: list[object] = []

        def look(unit: Unit, conn: Connection[Any]) -> None:
            seen.extend(world.rows("select attempt_offset, attempts from gapless.consumer_offsets"))

        group.drain(make_handler(look), alone=True)
        assert seen == [(1, 1), (2, 1)]

    def test_it_takes_one_unit_at_a_time(self, world: World, group: Group) -> None:
        world.units(3, 1, 2)
        assert [group.step_alone(batch_size=100).events for _ in range(4)] == [3, 1, 2, 0]
        group.assert_all_once(6)

    def test_an_error_is_not_a_death(self, world: World, group: Group) -> None:
        """A passing trouble may last longer than crashes_max; nothing is dead for it."""
        world.units(1)
        failpoints.arm({"step.handled": "raise"})
        for _ in range(5):
            with pytest.raises(RuntimeError):
                group.step_alone(policy=Policy(crashes_max=2))
        failpoints.arm({})
        group.drain(alone=True)
        group.assert_all_once(1)
        assert group.letters() == {}

    def test_a_refusal_is_dead_at_once(self, world: World, group: Group) -> None:
        world.units(1, 1)
        group.failing = {1}
        group.drain(alone=True)
        group.assert_all_once(2)
        assert "refused 1" in group.letters()[1]
