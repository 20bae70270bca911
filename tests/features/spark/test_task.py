"""What a Spark task does with a partition: the same step under the same fence, whatever is repeated."""

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.spark.task import Work, find_handler, work_on
from gapless.lease import hold
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.group import owner
from support.turn import terms

EVENTS = 12
ODD = 5
APPLICATION = Path(__file__).parents[2] / "spark_handlers.py"
HANDLERS = f"{APPLICATION}:note"


class World:
    """Twelve events of one partition, one of them odd, and the work on it."""

    def __init__(self, conn: Connection, work: Work, holder: Connection) -> None:
        self.conn = conn
        self.work = work
        self.holder = holder  # the driver's session

    def publish(self, **odd: Any) -> None:
        for n in range(EVENTS):
            payload = {"n": n, **(odd if n == ODD else {})}
            publish(self.conn, "outbox", [NewEvent(payload=payload, key="a")])
        sequence(self.conn)

    def effects(self) -> list[int]:
        return [n for (n,) in self.conn.execute("select n from effect order by n")]

    def attempts(self) -> int:
        row = self.conn.execute("select max(attempts) from gapless.consumer_offsets").fetchone()
        return row[0] if row else 0


@pytest.fixture
def world(dsn: str, conn: Connection, topic: Topic) -> Iterator[World]:
    conn.execute("create table effect (partition_id int, c_offset bigint, n int)")
    with owner(dsn, "on-spark", topic) as held:
        row = conn.execute("select gapless.partition_of('a', 4)").fetchone()
        assert row is not None
        work = Work(
            dsn=dsn,
            references=(HANDLERS,),
            default_group=None,
            default_topic="outbox",
            assignment=held.assignments[row[0]],
            terms=terms(
                find_handler((HANDLERS,), ("", ""), ("on-spark", topic.name)), batch_size=4
            ),
            max_processing_ms=60_000,
            quota_s=60.0,
        )
        assert work.assignment.partition.partition_id == row[0]
        yield World(conn, work, held.conn)


@pytest.mark.parametrize("group", ["a", "b"])
@pytest.mark.parametrize("topic", ["outbox", "other"])
def test_a_handler_is_found_by_what_it_serves(group: str, topic: str) -> None:
    """Not by its name: handlers that a function makes, one for each group, share theirs."""
    handler = find_handler((f"{APPLICATION}:made",), ("a", "outbox"), (group, topic))
    assert (handler.group or "a", handler.topic) == (group, topic)


def test_a_handler_that_names_no_topic_serves_the_default(tmp_path: Path) -> None:
    (tmp_path / "modest.py").write_text(
        "import gapless\n\n\n@gapless.handler()\ndef handle(unit, conn): ...\n"
    )
    reference = f"{tmp_path}/modest.py"
    handler = find_handler((reference,), ("a", "orders"), ("a", "orders"))
    assert handler.name == "modest:handle"
    with pytest.raises(UsageError, match="no handler serves outbox"):
        find_handler((reference,), ("a", "orders"), ("a", "outbox"))


def test_what_a_task_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "lacking.py").write_text("import os\nos.environ['SHOP_TOKEN']")
    for reference, why in (
        (f"{tmp_path}/lacking.py", "SHOP_TOKEN.*spark.executorEnv.NAME"),
        (f"{APPLICATION}:made", "no handler serves third for a"),
    ):
        with pytest.raises(UsageError, match=f"where Spark's tasks run, .*{why}"):
            find_handler((reference,), ("a", "outbox"), ("a", "third"))


def test_a_task_of_a_former_owner_writes_nothing(world: World) -> None:
    """The driver was taken for dead, another one installed its fence, and the task runs late."""
    world.publish()
    partition = world.work.assignment.partition
    row = world.conn.execute("select member_id from gapless.member").fetchone()
    assert row is not None
    later = hold.take(world.holder, partition, row[0])
    assert later is not None
    assert hold.install(world.holder, later) is not None
    report = work_on(world.work)
    assert report.fenced
    assert (report.events, world.effects()) == (0, [])
    assert work_on(replace(world.work, assignment=later)).events == EVENTS
    assert world.effects() == list(range(EVENTS))


def test_two_attempts_at_once_do_each_unit_once(world: World) -> None:
    """Speculation, and an executor that was given up too early."""
    world.publish()
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(work_on, [world.work, world.work]))
    assert world.effects() == list(range(EVENTS))
    assert sum(report.events for report in reports) == EVENTS


def test_what_passes_is_tried_again_in_the_same_task(world: World, tmp_path: Path) -> None:
    world.publish(flaky=str(tmp_path / "raised"))
    assert work_on(world.work).events == EVENTS
    assert (tmp_path / "raised").exists()
    assert world.effects() == list(range(EVENTS))


@pytest.mark.long
def test_a_handler_that_hangs_costs_its_process_and_then_its_unit(world: World) -> None:
    """Spark would wait for ever: the task ends itself, and the unit is found and set aside (I8)."""
    world.publish(hang=True)
    work = replace(world.work, max_processing_ms=3_000)
    codes = [_ends(replace(work, alone=alone)) for alone in (0, EVENTS, EVENTS, EVENTS, EVENTS)]
    assert codes == [1, 1, 1, 1, 0]
    assert world.effects() == [n for n in range(EVENTS) if n != ODD]
    assert world.conn.execute("select count(*) from gapless.letters").fetchone() == (1,)


@pytest.mark.long
def test_a_session_an_operator_ended_is_no_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(terminate=True)
    for forgiven_of, attempts in ((2**40, 0), (1, 1)):
        monkeypatch.setattr("gapless.worker.forgive.FORGIVEN_OF", forgiven_of)
        with pytest.raises(psycopg.errors.AdminShutdown):
            work_on(replace(world.work, alone=EVENTS))
        assert world.attempts() == attempts
    assert world.effects() == list(range(ODD))


def _ends(work: Work) -> int:
    """Return the exit code of a process of its own that does the work."""
    told = "import pickle, sys; from gapless.features.spark.task import work_on"
    return subprocess.run(
        [sys.executable, "-c", f"{told}; work_on(pickle.load(sys.stdin.buffer))"],
        input=pickle.dumps(work),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        timeout=120,
    ).returncode
