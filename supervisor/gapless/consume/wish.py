"""What a handler may say about its unit by raising it; everything else it raises is an error."""

from __future__ import annotations


class Retry(Exception):  # noqa: N818 - a wish, not an error
    """Undo what I wrote, and call me again with this unit in `after` seconds, whatever the policy.

    As often as the handler likes: `unit.attempt` tells how often it was called.
    """

    def __init__(self, reason: str = "the handler asked for another attempt", *, after: float = 0):
        if not 0 <= after <= AFTER_S_MAX:
            raise ValueError(f"Retry(after={after}): 0 to {AFTER_S_MAX} seconds")
        super().__init__(reason)
        self.after = after

    def __reduce__(self) -> tuple[object, ...]:
        return (_retry, (self.args[0], self.after))


class DeadLetter(Exception):  # noqa: N818
    """Undo what I wrote, and put this unit into the dead letter queue now, whatever the policy."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Skip(Exception):  # noqa: N818
    """Undo what I wrote, and go on as if I had handled this unit; nothing is kept of it."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


WISHES = (Retry, DeadLetter, Skip)
AFTER_S_MAX = 366 * 86_400


def _retry(reason: str, after: float) -> Retry:
    return Retry(reason, after=after)
