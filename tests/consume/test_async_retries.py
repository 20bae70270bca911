"""An async at-least-once handler is called again with a unit that it failed."""

from time import monotonic

from psycopg import Connection

from gapless import handler, testing
from gapless.consume.unit import Unit
from gapless.log.publish import publish
from gapless.log.topics import Topic


def test_an_async_handler_is_awaited_again(dsn: str, conn: Connection, topic: Topic) -> None:
    attempts: list[int] = []

    @handler(
        topic="outbox",
        group="g",
        delivery="at-least-once",
        on_failure="retry",
        retry_delays_s=[0, 0, 0],
    )
    async def flaky(unit: Unit) -> None:
        attempts.append(unit.attempt)
        if len(attempts) < 3:
            raise ConnectionError("not yet")

    publish(conn, "outbox", 1)
    until_s = monotonic() + 60.0
    while len(attempts) < 3 and monotonic() < until_s:
        testing.drain(dsn, flaky)
    assert attempts == [1, 2, 3]
    assert conn.execute("select state from gapless.dead_letter").fetchall() == []
