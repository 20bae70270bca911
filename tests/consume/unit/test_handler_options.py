"""What @gapless.handler() makes of its options: each is there, and none has another's value."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import gapless
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler, ObservedHandler, handler, require_single_units
from gapless.errors import UsageError

PLAIN: dict[str, Any] = {
    "topic": "t", "group": None, "topics": (), "weights": (), "mode": "ordered",
    "visibility_s": None, "batch": False, "batch_size": None, "group_by": None,
    "start": "earliest", "on_failure": None, "retry_delays_s": None, "delivery": None,
    "concurrency": None, "resources": (), "coroutine": None, "declares": None, "filter": None,
    "asides_beside": False, "guard": None,
}  # fmt: skip


@gapless.resource
def pool() -> Any:
    yield 1


def made(**options: Any) -> Handler:
    found: Handler = handler(**{"topic": "t", **options})(lambda unit, conn: (unit, conn))
    return found


def said(found: Handler) -> dict[str, Any]:
    """Return what is not as it is of a handler that says nothing."""
    return {name: getattr(found, name) for name in PLAIN if getattr(found, name) != PLAIN[name]}


def test_who_says_nothing_gets_what_is_configured() -> None:
    assert said(made()) == {}
    assert made(topic=None).topic is None
    assert made().habits == ObservedHandler(
        publishes=False, defers=False, sets=False, interruptible=True
    )  # fmt: skip
    assert made().habits is not made().habits


@pytest.mark.parametrize(
    "option",
    [
        {"group": "g"}, {"batch": True}, {"batch_size": 1}, {"batch_size": 100_000},
        {"group_by": "user"}, {"group_by": "transaction"}, {"start": "latest"},
        {"on_failure": "block"}, {"retry_delays_s": (0.0, 1.5)}, {"retry_delays_s": ()},
        {"delivery": "exactly-once"}, {"concurrency": 1}, {"concurrency": 1000},
        {"resources": (pool,)},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_is_there_alone(option: dict[str, Any]) -> None:
    assert said(made(**option)) == option


@pytest.mark.parametrize(
    ("options", "becomes"),
    [
        ({"topic": "a"}, {"topic": "a"}),
        ({"topic": ["a"]}, {"topic": "a"}),
        ({"topic": {"a": 1000}}, {"topic": "a"}),
        ({"topic": ["b", "a"]}, {"topic": "b", "topics": ("b", "a")}),
        (
            {"topic": {"b": 1000, "a": 1}},
            {"topic": "b", "topics": ("b", "a"), "weights": (1000, 1)},
        ),
        ({"visibility_s": 0.1}, {"visibility_s": 0.1}),
        ({"visibility_s": 86_400}, {"visibility_s": 86_400.0}),
        ({"visibility_s": timedelta(seconds=2)}, {"visibility_s": 2.0}),
        ({"on_failure": "retry"}, {"on_failure": "retry"}),
    ],
)
def test_what_a_queue_says(options: dict[str, Any], becomes: dict[str, Any]) -> None:
    assert said(made(mode="queue", **options)) == {"mode": "queue", **becomes}


def test_at_least_once_is_by_the_unit() -> None:
    def call(unit: Unit) -> Unit:
        return unit

    def once(**options: Any) -> dict[str, Any]:
        found: Handler = handler(topic="t", delivery="at-least-once", **options)(call)
        return said(found)

    assert once() == {"delivery": "at-least-once"}
    assert once(group_by="transaction")["group_by"] == "transaction"
    # As it is configured, for one that does not say so.
    require_single_units(Handler(function=call), None)
    with pytest.raises(UsageError, match="called with one argument, the unit"):
        require_single_units(made(), "transaction")


def test_a_filter_and_a_guard() -> None:
    filtered = made(event_types=["a"], where="$.x > $y", params={"y": 1})
    assert set(said(filtered)) == {"filter"}
    assert filtered.filter is not None
    assert set(said(made(on_invalid="dead-letter"))) == {"guard"}
    assert made(on_invalid=None).guard is None


def test_what_is_the_same_handler() -> None:
    """Not by what is learned of it, nor by its guard; and neither is shown."""

    def call(unit: Unit, conn: object) -> None:
        """Do nothing."""

    one = Handler(function=call, topic="t")
    other = Handler(function=call, topic="t", guard=made(on_invalid="dead-letter").guard)
    other.habits.sets = True
    assert one == other
    assert repr(one) == repr(other)
    assert one != Handler(function=call, topic="u")


def test_an_async_one_is_called_by_hand_and_awaited() -> None:
    async def wait(unit: Unit, conn: object) -> object:
        return conn

    found = handler(topic="t")(wait)
    assert found.coroutine is wait
    assert found.function is not wait
    unit: Any = object()
    conn: Any = object()
    assert asyncio.run(found(unit, conn)) is conn
    assert made()(unit, conn) == (unit, conn)
