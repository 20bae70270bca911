"""Declaring handlers: what could never work is refused when it is declared, in one line."""

import functools
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Connection

from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler, handler
from gapless.errors import UsageError
from support.world import Group, World, make_handler


def plain(unit: Unit, conn: Connection[Any]) -> None:
    """Do nothing."""


async def asynchronous_generator(unit: Unit, conn: Connection[Any]) -> AsyncIterator[int]:
    yield 1


def three(self: object, unit: Unit, conn: Connection[Any]) -> None:
    """Too many."""


def keyword(*, unit: Unit, conn: Connection[Any]) -> None:
    """Not by position."""


class Callable2:
    def __call__(self, unit: Unit, conn: Connection[Any]) -> None:
        """Do nothing."""


REFUSED: dict[str, tuple[Any, str]] = {
    "async generator": (asynchronous_generator, "is an async generator function"),
    "three arguments": (three, "missing a required argument: 'conn'"),
    "keywords only": (keyword, "called with two arguments"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_never_work_is_refused(name: str) -> None:
    function, text = REFUSED[name]
    with pytest.raises(UsageError, match=text) as caught:
        handler(topic="t")(function)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "function",
    [
        plain,
        Callable2(),
        functools.partial(three, None),
        lambda *args: None,
        lambda unit, conn, more=1: None,
        print,
    ],
)
def test_what_works_is_accepted(function: Callable[..., Any]) -> None:
    made = handler(topic="t", group="g", batch_size=5, group_by="user", start="latest")(function)
    assert isinstance(made, Handler)
    assert (made.topic, made.group, made.batch_size, made.group_by, made.start, made.batch) == (
        "t", "g", 5, "user", "latest", False,
    )  # fmt: skip
    assert made.function is function


def test_a_handler_can_be_called_by_hand() -> None:
    seen: list[object] = []
    made = handler(topic="t")(lambda unit, conn: seen.append((unit, conn)))
    made("unit", "conn")  # type: ignore[arg-type]
    assert seen == [("unit", "conn")]


def test_its_name_says_where_it_is() -> None:
    assert handler(topic="t")(plain).name == f"{plain.__module__}:plain"


def test_delays_may_be_of_any_kind() -> None:
    """An iterator is not used up by checking it."""
    delays: Any = iter([1, timedelta(minutes=1)])
    assert handler(topic="t", retry_delays_s=delays)(plain).retry_delays_s == (1, 60)


class AsyncCallable:
    async def __call__(self, unit: Unit, conn: Connection[Any]) -> None:
        """What a plain function calls, and does not await."""


def forgetful(unit: Unit, conn: Connection[Any]) -> object:
    return AsyncCallable()(unit, conn)


def test_what_looks_plain_and_is_not_is_dead(shared_world: World, recwarn: Any) -> None:
    world = shared_world.another_topic()
    world.units(1, 1)
    group: Group = world.group()
    with group.conn:
        group.drain(make_handler(forgetful))
    assert "returned a coroutine instead of doing its work" in group.letters()[1]
    assert len(group.letters()) == 2
    assert not recwarn.list, "no coroutine is left that was never awaited"
