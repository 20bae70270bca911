"""One table over the players of scripts: what they send, whose transaction it is, and what the server says of it."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import psycopg2
import pytest
from psycopg import Connection

from gapless.log.play import Explaining, play
from gapless.log.script import COPY, WHOLE, Script, Trouble
from gapless.log.topics import Topic
from support.log import published_nothing
from support.publisher import ERROR, KINDS, Publisher, publisher

EVENT: dict[str, Any] = {
    "topic": "outbox", "payload": "1", "key": None, "event_type": None, "headers": None,
    "host_id": None, "user_id": None, "transaction_id": None,
}  # fmt: skip
GONE = 'topic "nowhere" does not exist: create it with gapless topics create nowhere'


class OwnError(Exception):
    """Raised by a script, between two questions."""


class ToldError(Exception):
    """Raised of a Trouble, which it has."""


@pytest.fixture(scope="module")
def dsn(module_dsn: str) -> str:
    """One database for the file; each test begins with nothing published in it."""
    return module_dsn


@pytest.fixture(autouse=True)
def nothing(topic: Topic, conn: Connection) -> None:
    published_nothing(conn)


@pytest.fixture(params=KINDS)
def own(request: pytest.FixtureRequest, dsn: str) -> Iterator[Publisher]:
    """A connection in autocommit."""
    with publisher(dsn, request.param) as made:
        yield made


def publishing(
    _: object,
    payloads: Sequence[str] = (),
    whole: bool = False,
    error: Exception | None = None,
    **last: Any,
) -> Script[list[Any]]:
    """Publish each; then ask what is not answered, or raise."""
    rows = []
    if whole:
        yield WHOLE
    for payload in payloads:
        rows.append((yield "publish_one", EVENT | {"payload": payload}, None))  # noqa: PERF401
    if error is not None:
        raise error
    if last:
        yield "publish_one", EVENT | last, False
    return rows


def played(own: Publisher, *payloads: str, **more: Any) -> Any:
    script = partial(publishing, payloads=payloads, **more)
    return own.call(play, script, Explaining(ToldError))


def stored(conn: Connection) -> list[Any]:
    rows = conn.execute("select payload from gapless.outbox_message_t order by id").fetchall()
    return [row[0] for row in rows]


def transactions(conn: Connection) -> int:
    row = conn.execute("select count(distinct xid) from gapless.outbox_message_t").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("whole", [True, False])
def test_a_script_is_told_each_row_and_comes_to_something(
    own: Publisher, conn: Connection, whole: bool
) -> None:
    rows = played(own, "1", "2", whole=whole)
    assert [len(row) for row in rows] == [1, 1]
    assert all(type(row) is tuple and UUID(str(row[0])) for row in rows), (
        "whatever its cursors make"
    )
    assert stored(conn) == [1, 2]
    assert transactions(conn) == (1 if whole else 2)
    assert own.is_idle


@pytest.mark.parametrize("whole", [True, False])
def test_in_a_transaction_it_is_part_of_that(own: Publisher, conn: Connection, whole: bool) -> None:
    own.execute("begin")
    played(own, "1", "2", whole=whole)
    assert stored(conn) == []
    assert not own.is_idle
    own.execute("commit")
    assert stored(conn) == [1, 2]
    assert transactions(conn) == 1
    own.execute("begin")
    played(own, "3", whole=whole)
    own.execute("rollback")
    assert stored(conn) == [1, 2]


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_whole_is_stored_whole_or_not_at_all(
    own: Publisher, conn: Connection, whole: bool
) -> None:
    with pytest.raises(ToldError):
        played(own, "1", "2", whole=whole, topic="nowhere")
    with pytest.raises(OwnError):
        played(own, "3", whole=whole, error=OwnError())
    assert stored(conn) == ([] if whole else [1, 2, 3])
    assert own.is_idle
    played(own, "4", whole=whole)
    assert stored(conn)[-1] == 4, "the connection is as good as before"


@pytest.mark.parametrize("whole", [True, False])
def test_one_that_fails_in_a_transaction_is_the_callers_to_roll_back(
    own: Publisher, conn: Connection, whole: bool
) -> None:
    """No savepoint is set behind his back, which costs whether it fails or not."""
    own.execute("begin")
    with pytest.raises(ToldError):
        played(own, "1", whole=whole, topic="nowhere")
    with pytest.raises(ERROR, match="current transaction is aborted"):
        own.execute("select 1")
    own.execute("rollback")
    assert stored(conn) == []


@pytest.mark.parametrize("error", [OwnError(), KeyboardInterrupt()])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_error_of_our_own_amid_the_whole_lets_no_part_commit(
    dsn: str, conn: Connection, kind: str, error: BaseException
) -> None:
    """Only psycopg's scripts make statements after the first is sent."""
    with publisher(dsn, kind) as own:
        own.execute("begin")
        with pytest.raises(type(error)):
            played(own, "1", whole=True, error=error)
        own.execute("commit")
        assert stored(conn) == []
        played(own, "2")
    assert stored(conn) == [2]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("fails", [True, False])
def test_rows_are_copied_as_they_come(dsn: str, conn: Connection, kind: str, fails: bool) -> None:
    def rows() -> Iterator[tuple[Any, ...]]:
        for n in range(3):
            yield (1, str(n), None, None, None, None, None, None)
        if fails:
            raise OwnError

    def script(_: object) -> Script[int]:
        yield WHOLE
        count: int = yield COPY, rows(), None
        return count

    with publisher(dsn, kind) as own:
        if fails:
            with pytest.raises(OwnError):
                own.call(play, script)
        else:
            assert own.call(play, script) == 3
        assert own.is_idle
    assert stored(conn) == ([] if fails else [0, 1, 2])


def test_what_the_server_says_is_told(own: Publisher) -> None:
    with pytest.raises(ToldError) as caught:
        played(own, whole=True, topic="nowhere")
    (trouble,) = caught.value.args
    assert isinstance(trouble, Trouble)
    assert caught.value.__cause__ is trouble.error
    assert isinstance(trouble.error, ERROR)
    assert (trouble.state, trouble.message, trouble.detail) == ("GL404", GONE, None)
    assert str(trouble) == GONE
    with pytest.raises(ToldError) as caught:
        played(own, payload="no")
    (trouble,) = caught.value.args
    assert (trouble.state, trouble.detail) == ("22P02", 'Token "no" is invalid.')
    assert trouble.message == "invalid input syntax for type json"
    with pytest.raises(ERROR) as own_error:
        own.call(play, lambda conn: publishing(conn, topic="nowhere"))
    assert own_error.value.__cause__ is None, "the driver's own error, as if nobody had caught it"


def test_an_error_of_the_driver_alone_has_its_own_words(dsn: str) -> None:
    with publisher(dsn, "psycopg2") as own:
        own.conn.close()
        with pytest.raises(ToldError) as caught:
            played(own, "1", whole=True)
    (trouble,) = caught.value.args
    assert isinstance(trouble.error, psycopg2.InterfaceError)
    assert (trouble.state, trouble.message) == ("", "connection already closed")


@pytest.mark.parametrize("kind", ["sync", "async", "psycopg2"])
def test_a_connection_that_begins_by_itself_stays_in_its_transaction(
    dsn: str, conn: Connection, kind: str
) -> None:
    """As these are by default: what commits is the program's."""
    with publisher(dsn, kind, autocommit=False) as own:
        played(own, "1", whole=True)
        assert stored(conn) == []
        own.execute("commit")
        assert stored(conn) == [1]
