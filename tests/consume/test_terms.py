"""One place decides a handler's options: the same Terms, whoever runs it."""

from argparse import Namespace
from dataclasses import fields, replace
from typing import Any

import pytest
from psycopg import Connection

import gapless.testing
from gapless.consume.drive import Driver
from gapless.consume.job import Job
from gapless.consume.terms import Terms, agree, require_fit
from gapless.consume.user.handler import Handler, handler
from gapless.consume.verdict.policy import Policy
from gapless.errors import UsageError
from gapless.features.replay.plan import replay_terms as terms_of_replay
from gapless.features.spark.engine import Engine
from gapless.log.filter import Filter
from gapless.settings import Settings
from gapless.testing import drained
from gapless.worker.plan import make_plan
from support.world import World

SAID: dict[str, Any] = {
    "batch_size": 4,
    "group_by": "user",
    "start": "latest",
    "on_failure": "park-key",
    "retry_delays_s": (1.0, 2.5),
    "delivery": "exactly-once",
    "concurrency": 3,
    "event_types": ["order.*"],
}
CONFIGURED = Settings(
    batch_size=77,
    group_by="transaction",
    on_failure="block",
    retry_delays_s=(9,),
    max_crashes=7,
    concurrency=9,
    stream_above_events=12_345,
    max_units_per_savepoint_batch=5,
    auto_offset_reset="latest",
    instance_name="me",
    delivery="at-least-once",
    visibility_s=44,
    workers=6,
)
QUEUE_SAID: dict[str, Any] = {
    "mode": "queue",
    "visibility_s": 2.5,
    "batch_size": 4,
    "start": "latest",
    "on_failure": "retry",
    "retry_delays_s": (1.0, 2.5),
    "delivery": "at-least-once",
    "concurrency": 3,
}


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


@pytest.fixture
def speaks(world: World) -> Handler:
    """A handler with every option set."""
    made: Handler = handler(topic=world.topic.name, group="terms", **SAID)(lambda unit, conn: None)
    silent = handler(topic="t")(lambda unit, conn: None)
    options = {each.name for each in fields(Handler)} - {
        "function",
        "topic",
        "group",
        "batch",
        "habits",
        "guard",  # of on_invalid: in tests/features/schemas
        "topics",  # of a queue, as the three that follow: see the queue that speaks
        "weights",
        "mode",
        "visibility_s",
        "coroutine",  # what follows is no term: the function itself, what it needs, what calls it
        "resources",
        "declares",
        "asides_beside",  # of shared webhooks
    }
    assert all(getattr(made, name) is not None for name in options), "an option more: set it here"
    assert {name for name in options if getattr(made, name) != getattr(silent, name)} == options
    return made


def test_each_of_its_options_counts(speaks: Handler) -> None:
    assert agree(speaks, CONFIGURED) == Terms(
        group_id="terms",
        topic=str(speaks.topic),
        topics=(str(speaks.topic),),
        weights=(),
        mode="ordered",
        visibility_s=44,
        workers=6,
        batch_size=4,
        group_by="user",
        delivery="exactly-once",
        concurrency=3,
        policy=Policy(on_failure="park-key", retry_delays_s=(1.0, 2.5), crashes_max=7),
        start="latest",
        stream_above_events=12_345,
        units_per_commit=5,
        auto_offset_reset="latest",
        worker="me",
        filter=Filter(event_types=("order.*",)),
    )


def test_what_it_does_not_say_is_as_configured() -> None:
    silent = handler(topic="t", group="g")(lambda unit, conn=None: None)
    terms = agree(replace(silent, delivery=None), CONFIGURED)
    assert (terms.batch_size, terms.group_by, terms.delivery) == (
        77,
        "transaction",
        "at-least-once",
    )
    assert (terms.policy, terms.concurrency) == (
        Policy(on_failure="block", retry_delays_s=(9,), crashes_max=7),
        9,
    )


def test_no_other_attempt_is_something_a_handler_may_say() -> None:
    silent = handler(topic="t", on_failure="retry", retry_delays_s=())(lambda unit, conn: None)
    assert agree(silent, Settings()).policy.retry_delays_s == ()


def test_they_are_the_same_through_run_spark_replay_and_testing(
    world: World, speaks: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed = agree(speaks, CONFIGURED)
    plan = make_plan(CONFIGURED, world.dsn, [speaks])
    assert plan.terms == {("terms", world.topic.name): agreed}

    engine = object.__new__(Engine)
    engine._plan = plan
    partition = Namespace(group_id="terms", topic=world.topic.name)
    assert engine._terms(partition) == agreed  # type: ignore[arg-type]

    # A replay has its own policy: nobody will be there to try again later.
    replayed = terms_of_replay(speaks, CONFIGURED)
    assert replace(replayed, policy=agreed.policy) == agreed
    assert replayed.policy == Policy(crashes_max=7)

    driven: list[Terms] = []

    class Watched(Driver):
        def __init__(self, turn: Job, **more: Any) -> None:
            driven.append(turn.terms)
            super().__init__(turn, **more)

    monkeypatch.setattr(drained, "Driver", Watched)
    gapless.testing.drain(world.dsn, speaks, settings=CONFIGURED)
    assert driven
    assert set(driven) == {agreed}


def test_testing_drain_keeps_a_handlers_own_options(world: World, conn: Connection[Any]) -> None:
    """12 events of one user, each published by itself: one unit, as in production."""
    units: list[int] = []

    @handler(topic=world.topic.name, group="drained", group_by="user", batch_size=4)
    def note(unit: gapless.Unit, conn: Connection[Any]) -> None:
        units.append(len(unit))

    for n in range(12):
        gapless.publish(world.conn, world.topic.name, {"n": n}, user_id="u", host_id="h", key="k")
    gapless.testing.drain(world.dsn, note)
    assert units == [12]


def test_a_replay_of_what_is_sent_elsewhere_is_refused_however_that_was_said() -> None:
    configured = handler(topic="t", group="g")(lambda unit: None)
    own = handler(topic="t", group="g", delivery="at-least-once")(lambda unit: None)
    for each, settings in ((configured, CONFIGURED), (own, Settings())):
        with pytest.raises(UsageError, match="would send it all again"):
            terms_of_replay(each, settings)


def test_the_configured_delivery_decides_how_a_handler_that_says_nothing_is_called() -> None:
    alone = handler(topic="t", group="g")(lambda unit: None)
    both = handler(topic="t", group="g")(lambda unit, conn: None)
    at_least_once, exactly_once = Settings(delivery="at-least-once"), Settings()
    for each, settings in ((alone, at_least_once), (both, exactly_once)):
        require_fit(each, agree(each, settings))
    for each, settings, words in (
        (alone, exactly_once, r"two arguments, the unit and the connection.*\(unit, conn\)$"),
        (both, at_least_once, r"one argument, the unit.*\(unit\)$"),
    ):
        with pytest.raises(UsageError, match=words):
            make_plan(settings, "", [each])
        with pytest.raises(UsageError, match=words):
            gapless.testing.drain("", [each], settings=settings)
    with pytest.raises(UsageError, match="two arguments"):
        terms_of_replay(alone, exactly_once)
