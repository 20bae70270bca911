"""The checks of @gapless.handler(): wrong options are refused at once, not at the first event."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal, get_args

from gapless.consume.verdict.wish import seconds
from gapless.errors import UsageError
from gapless.resources import Resource
from gapless.settings.sections import RETRIES_MAX, DeliveryMode, GroupBy, OnFailure
from gapless.settings.stranger import closest, hint

Mode = Literal["ordered", "queue"]
ORDERED: Mode = "ordered"
ServedTopics = str | Sequence[str] | Mapping[str, int]
VISIBILITY_S_MIN, VISIBILITY_S_MAX = 0.1, 86_400
WEIGHT_MAX = 1000
_GROUP = re.compile("[A-Za-z0-9._-]{1,249}", re.ASCII)


def check_names(options: Iterable[str], known: Collection[str]) -> None:
    """Refuse an option that is not one of those known."""
    for name in sorted(set(options).difference(known)):
        raise UsageError(f"handler({name}=…): there is no such option{hint(closest(name, known))}")


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse an option that is out of its range."""
    if "unit" in options:
        raise UsageError(
            f"handler(unit={options['unit']!r}): no such option: a queue hands out single events: "
            "publish what belongs together as one event, or take a group that keeps an order"
        )
    _check_group(options.get("group"))
    if not isinstance(batch := options.get("batch", False), bool):
        raise UsageError(f"handler(batch={batch!r}): True or False")
    for each in options.get("resources") or ():
        if not isinstance(each, Resource):
            raise UsageError(f"handler(resources=…): {each!r} is not made by @gapless.resource")
    _check_choices(options)


def _check_group(group: object) -> None:
    if group is not None and not (isinstance(group, str) and _GROUP.fullmatch(group)):
        said = "1 to 249 letters, digits, dots, dashes and underscores"
        raise UsageError(f"handler(group={str(group)[:100]!r}): {said}")


def _check_choices(options: Mapping[str, Any]) -> None:
    for name, words in _WORDS.items():
        if (word := options.get(name)) not in (None, *words):
            choice = " or ".join(f'"{each}"' for each in words)
            meant = hint(closest(str(word), words))
            raise UsageError(f"handler({name}={word!r}): {choice}{meant}")
    for name, most in _MOST.items():
        number = options.get(name)
        if number is not None and not (type(number) is int and 1 <= number <= most):
            raise UsageError(f"handler({name}={number!r}): a whole number from 1 to {most}")


def delays_of(delays: object) -> tuple[float, ...]:
    """Return delays in seconds; each may be a timedelta. Raises UsageError for anything else."""
    what = f"handler(retry_delays_s={str(delays)[:100]})"
    if isinstance(delays, str) or not isinstance(delays, Iterable):
        raise UsageError(f"{what}: a list of delays")
    try:
        found = tuple(seconds(delay) for delay in islice(delays, RETRIES_MAX + 1))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what}: each {error}") from error
    if len(found) > RETRIES_MAX:
        raise UsageError(f"{what}: at most {RETRIES_MAX} delays")
    return found


def visibility_of(visibility: object) -> float:
    """Return the seconds for which an event is reserved. Raises UsageError for anything else."""
    try:
        visibility_s = seconds(visibility)
    except (TypeError, ValueError):
        visibility_s = 0.0
    if not VISIBILITY_S_MIN <= visibility_s <= VISIBILITY_S_MAX:
        raise UsageError(
            f"handler(visibility_s={str(visibility)[:100]}): {VISIBILITY_S_MIN} to "
            f"{VISIBILITY_S_MAX} seconds, or a timedelta"
        )
    return visibility_s


def topics_of(topic: object, mode: Mode) -> tuple[str, ...]:
    """Return the topics that a handler names. Raises UsageError for values that are none."""
    if topic is None or isinstance(topic, str):
        return () if topic is None else (topic,)
    names = tuple(topic) if isinstance(topic, Sequence | Mapping) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"handler(topic={str(topic)[:100]}): a name, or a list of names")
    if len(set(names)) < len(names):
        raise UsageError(f"handler(topic={str(topic)[:100]}): each topic once")
    if mode == ORDERED and len(names) > 1:
        raise UsageError(
            f'handler(topic={str(topic)[:100]}): several topics are for mode="queue"; write one '
            "handler for each"
        )
    return names


def weights_of(topic: object, topics: Sequence[str]) -> tuple[int, ...]:
    """Return the weights of these topics, an empty tuple without any. Raises UsageError."""
    if not isinstance(topic, Mapping):
        return ()
    weights = tuple(topic[name] for name in topics)
    if not all(type(each) is int and 1 <= each <= WEIGHT_MAX for each in weights):
        what = f"handler(topic={str(topic)[:100]})"
        raise UsageError(f"{what}: each weight a whole number from 1 to {WEIGHT_MAX}")
    return weights if len(weights) > 1 else ()


def check_function(function: Callable[..., Any], delivery: DeliveryMode | None) -> None:
    """Refuse now a function that would fail, or silently do nothing, at the first event.

    delivery: None for one that the configuration decides, later: a function of either kind passes.
    """
    if not callable(function):
        raise UsageError("@gapless.handler(...) goes above a function")
    name = getattr(function, "__qualname__", repr(function))
    for kind, is_kind in _NEVER_RUN.items():
        if is_kind(function):
            raise UsageError(f"handler {name} is {kind} function, which would never run: use def")
    error = _unlike(function, delivery or "exactly-once")
    if error is None or (delivery is None and _unlike(function, "at-least-once") is None):
        return
    parameters, words = _ARGUMENTS[delivery or "exactly-once"]
    write = f"def {getattr(function, '__name__', 'handle')}({', '.join(parameters)})"
    raise UsageError(f"handler {name} is called with {words}: {error}; write {write}")


def _unlike(function: Callable[..., Any], delivery: DeliveryMode) -> TypeError | None:
    try:
        inspect.signature(function).bind(*_ARGUMENTS[delivery][0])
    except TypeError as error:
        return error
    except ValueError:
        pass  # some built-in callables do not tell their signature
    return None


_ARGUMENTS: dict[DeliveryMode, tuple[tuple[str, ...], str]] = {
    "exactly-once": (("unit", "conn"), "two arguments, the unit and the connection"),
    "at-least-once": (("unit",), "one argument, the unit"),
}
_WORDS: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "group_by": get_args(GroupBy),
    "start": ("earliest", "latest", "latest-per-key"),
    "on_failure": get_args(OnFailure),
    "delivery": get_args(DeliveryMode),
    "on_invalid": ("dead-letter",),
}
_MOST = {"batch_size": 100_000, "concurrency": 1000}  # as in the configuration
_NEVER_RUN: dict[str, Callable[[object], bool]] = {
    "a generator": inspect.isgeneratorfunction,
    "an async generator": inspect.isasyncgenfunction,
}
