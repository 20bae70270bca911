"""Chains (I10): a handler publishes its events for the unit that it is handling.

publish() of Python asks log.cause, at no cost for others. Other inserts (SQL, a trigger) read a
setting of the transaction, which costs a round trip a unit. So the database is not told the unit
until a COMMIT is refused for this: UnattributedError. Then the batch is handled once more, with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

from gapless.consume.session import UnattributedError, is_of_settings, run
from gapless.consume.user.handler import Handler
from gapless.log.cause import Handling, Origin, attribution_of, handling


@contextmanager
def handled(origin: Origin) -> Iterator[None]:
    """Within the block, events are published for `origin`."""
    token = handling.set(Handling(origin))
    try:
        yield
    finally:
        handling.reset(token)


def tell(conn: Connection[Any], origin: Origin) -> None:
    """Tell the database the origin, until the transaction ends or another one is told."""
    run(conn, "tell_cause", attribution_of(origin))


def adapt(handler: Handler, error: BaseException) -> bool:
    """Note the habit of a handler that an error of ours reveals; False when it is known already.

    After True the batch is handled once more, in the way that such a handler needs.
    """
    habits = handler.habits
    if is_of_settings(error) and not habits.sets:
        habits.sets = True
        return True
    if not isinstance(error, UnattributedError):
        return False
    if not habits.publishes:
        habits.publishes = True
        return True
    if not habits.defers:
        habits.defers = True
        return True
    return False
