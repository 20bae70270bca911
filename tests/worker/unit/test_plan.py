"""What a supervisor is to run: which handler serves what, what is refused, which topics are made."""

from dataclasses import replace
from typing import Any

import pytest

from gapless.consume.user.handler import Handler, handler
from gapless.errors import UsageError
from gapless.features.scheduled.schedules import Schedule
from gapless.settings import Settings
from gapless.worker.plan import Plan, make_plan


def made(**options: Any) -> Handler:
    """A handler, called `work`."""

    def work(_unit: object, _conn: object) -> None: ...

    decorate: Any = handler(**options)
    returned: Handler = decorate(work)
    return returned


@pytest.mark.parametrize(
    ("creates", "asks_partitions", "topic", "makes"),
    [
        (True, False, "other", True),
        (False, True, "t", True),
        (False, True, "other", False),
        (False, False, "t", False),
    ],
)
def test_a_topic_is_made_where_somebody_said_so(
    creates: bool, asks_partitions: bool, topic: str, makes: bool
) -> None:
    plan = Plan(
        settings=Settings(create_topics=creates, topic="t"),
        dsn="",
        handlers={},
        terms={},
        asks_partitions=asks_partitions,
    )
    assert plan.makes(topic) == makes


def test_each_serves_its_group_and_topic_by_its_terms() -> None:
    one, other = made(topic="t", group="g"), made(topic="u", batch_size=3)
    plan = make_plan(Settings(group_id="h"), "here", [one, other])
    assert plan.handlers == {("g", "t"): one, ("h", "u"): other}
    assert set(plan.terms) == set(plan.handlers)
    assert plan.terms["h", "u"].batch_size == 3
    assert (plan.dsn, plan.asks_partitions, plan.declared, plan.source) == ("here", True, (), None)


def test_workers_of_a_queue_are_counted_once_whatever_it_serves() -> None:
    queue = made(topic=["t", "u", "v"], group="q", mode="queue")
    plan = make_plan(Settings(), "", [queue, made(topic="t", group="g")])
    assert set(plan.handlers) == {("q", "t"), ("q", "u"), ("q", "v"), ("g", "t")}
    assert plan.unleased == [("q", queue, plan.terms["q", "t"])]


@pytest.mark.parametrize(
    ("handlers", "why"),
    [
        ([made(topic="t")], "work names no group"),
        ([made(topic="t", group="g")] * 2, 'both serve topic "t" for group "g"'),
        ([], "there is no handler to run"),
        ([made(topic="t", group="g", mode="queue")], "no order that onFailure block could keep"),
    ],
)
def test_what_cannot_be_run_is_refused(handlers: list[Handler], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make_plan(Settings(on_failure="block"), "", handlers)


@pytest.mark.parametrize("queue_first", [False, True])
def test_a_group_is_a_queue_or_keeps_its_order(queue_first: bool) -> None:
    queue, ordered = made(topic="t", group="g", mode="queue"), made(topic="u", group="g")
    queue.function.__qualname__ = "many"
    handlers = [queue, ordered] if queue_first else [ordered, queue]
    with pytest.raises(UsageError) as refused:
        make_plan(Settings(), "", handlers)
    assert str(refused.value).startswith(
        f'group "g" is a queue for {__name__}:many, and keeps the order of its events for {__name__}:made'
    )


def test_with_handlers_that_come_there_may_be_none_yet() -> None:
    source: Any = "source"
    assert make_plan(Settings(), "", [], source=source).source is source


def test_schedules_are_those_that_are_given_and_those_of_handlers() -> None:
    given = Schedule(name="given", cron="* * * * *", topic="t")
    own = Schedule(name="own", cron="* * * * *", topic="t")
    scheduled = replace(made(topic="t", group="g"), declares=own)
    plan = make_plan(Settings(), "", [made(topic="u", group="g"), scheduled], declared=[given])
    assert plan.declared == (given, own)
