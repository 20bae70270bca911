"""Chains (I10): what a handler publishes is published for the unit that it is handling.

publish() of Python asks log.cause, at no cost for others. Whatever else inserts (SQL, a trigger) is
told by a setting of the transaction, for a round trip a unit. So nobody tells the database until a
COMMIT is refused for it: UntoldError. Then the batch is handled once more, and told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from gapless.consume.session import UntoldError, is_of_settings, run
from gapless.consume.user.handler import Handler
from gapless.log.cause import Handling, Origin, handling, told_of


@contextmanager
def handled(origin: Origin) -> Iterator[None]:
    """Within the block, what is published is published for `origin`."""
    token = handling.set(Handling(origin))
    try:
        yield
    finally:
        handling.reset(token)


def tell(conn: Connection[Any], origin: Origin) -> None:
    """Say it to the database, too, until the transaction ends or something else is told."""
    run(conn, "tell_cause", told_of(origin))


def adapt(handler: Handler, error: BaseException) -> bool:
    """Note what an error of ours tells of a handler's habits; False when there is nothing new.

    Then the batch is handled once more, as it is done for such a handler.
    """
    habits = handler.habits
    if is_of_settings(error) and not habits.sets:
        habits.sets = True
        return True
    if not isinstance(error, UntoldError):
        return False
    if not habits.publishes:
        habits.publishes = True
        return True
    if not habits.defers:
        habits.defers = True
        return True
    return False
