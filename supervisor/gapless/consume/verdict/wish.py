"""Exceptions by which a handler decides about its unit; all others are failures.

`__module__` is the public one: people read the names of these classes in dead letters.
"""

from __future__ import annotations

from datetime import timedelta


class Retry(Exception):  # noqa: N818 - a wish, not an error
    """Undo my writes, and call me again with this unit in `after` seconds, under any policy.

    after: seconds, or a timedelta, from 0 to 366 days. reason: kept with the unit, for people.
    It may be raised any number of times: `unit.attempt` tells the number of the call.
    Raises TypeError or ValueError when it is made with another delay.
    """

    __module__ = "gapless"

    def __init__(
        self,
        reason: str = "the handler asked for another attempt",
        *,
        after: float | timedelta = 0,
    ):
        super().__init__(reason)
        try:
            self.after = seconds(after)
        except (TypeError, ValueError) as error:
            raise type(error)(f"Retry(after={after!r}): {error}") from None

    def __reduce__(self) -> tuple[object, ...]:
        return (_retry, (self.args[0], self.after))


class Postponed(Retry):
    """A Retry of our own: the unit was not judged, so this is no attempt of it."""

    __module__ = "gapless"
    __qualname__ = "Retry"


class DeadLetter(Exception):  # noqa: N818
    """Undo my writes, and put this unit into the dead letter queue now, under any policy.

    reason: kept with the unit, for people.
    """

    __module__ = "gapless"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class PayloadError(DeadLetter):
    """The payload of an event is not of its handler's type: it goes to the dead letters.

    Its text begins with the event's place and the path of the field, `orders/0@17: $.total`.
    """

    __module__ = "gapless"


class InvalidEventError(PayloadError):
    """The payload of an event fits no version of its schema: the handler does not see its unit."""

    __module__ = "gapless"


class Skip(Exception):  # noqa: N818
    """Undo my writes, and continue as if I had handled this unit; nothing is kept of it."""

    __module__ = "gapless"

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


def seconds(delay: object) -> float:
    """Return a delay in seconds. Raises TypeError, or ValueError when it is out of range."""
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    if isinstance(delay, bool) or not isinstance(delay, int | float):
        raise TypeError("a number of seconds, or a timedelta")
    if not 0 <= delay <= AFTER_S_MAX:
        raise ValueError(f"0 to {AFTER_S_MAX} seconds")
    return float(delay)


WISHES = (Retry, DeadLetter, Skip)
AFTER_S_MAX = 366 * 86_400


def _retry(reason: str, after: float) -> Retry:
    return Retry(reason, after=after)
