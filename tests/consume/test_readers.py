"""Every entry reads by a group's filter: none knows the feature, and none can forget it."""

import subprocess
import sys
from typing import Any

import pytest

import gapless.testing
from gapless.consume.terms import agree
from gapless.consume.user.handler import handler
from gapless.features.spark.task import Work, work_on
from gapless.log.event import NewEvent
from gapless.settings import Settings
from support.world import World

SEEN: list[int] = []
TYPES = ("order", "stock", "order", "stock")


def note(unit: gapless.Unit, _conn: Any) -> None:
    """Handle a unit."""
    SEEN.extend(event.offset for event in unit)


def by_drain(world: World) -> None:
    made = handler(topic=world.topic.name, group="drained", event_types=["order"])(note)
    assert gapless.testing.drain(world.dsn, made).events == 2


def by_task(world: World) -> None:
    group = world.group()
    world.value("select gapless.set_filter(%s, %s, '{order}')", group.name, world.topic.name)
    assert work_on(task(world, group)).events == 2
    group.conn.close()


def by_task_of_letters(world: World) -> None:
    """A unit that was set aside while the group had a filter, and is redriven when it has none."""
    group = world.group()
    where = group.name, world.topic.name
    world.value("select gapless.set_filter(%s, %s, '{order}')", *where)
    group.failing = {1}
    assert group.step().dead == 1
    world.value("select gapless.clear_filter(%s, %s)", *where)
    world.value("select gapless.redrive_letter(%s, %s, 0, 1)", *where)
    assert work_on(task(world, group)).error is None
    group.conn.close()


def task(world: World, group: Any) -> Work:
    made = handler(topic=world.topic.name, group=group.name)(note)
    return Work(
        dsn=world.dsn,
        references=(f"{__name__}:handlers",),
        default_group=group.name,
        default_topic=world.topic.name,
        assignment=group.assignment,
        terms=agree(made, Settings()),
        max_processing_ms=60_000,
        quota_s=60.0,
    )


def handlers() -> Any:
    """What a task imports; its topic and its group are those of the task."""
    return handler()(note)


@pytest.mark.parametrize("entry", [by_drain, by_task, by_task_of_letters])
def test_no_handler_sees_what_is_not_kept(shared_world: World, entry: Any) -> None:
    world = shared_world.another_topic()
    SEEN.clear()
    world.events([NewEvent(payload={}, event_type=kind) for kind in TYPES])
    entry(world)
    assert SEEN == [1, 3]


def test_whatever_is_imported_first_knows_the_reader() -> None:
    """In an interpreter of its own."""
    options = "feature.parts(lambda each: each.options)"
    says = f"from gapless import feature; print(feature.reader(), *{options})"
    told = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert "FilteredReader" in told.stdout
    assert "_set_filter" in told.stdout
