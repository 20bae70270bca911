"""publish() through each driver: which rows come of it, what is told, and what the caller's session is afterwards."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from gapless import NewEvent, Published, PublishError
from gapless.db.connect import connect
from gapless.log.cause import Handling, handling
from gapless.log.publish import publish
from support.publisher import ERROR, KINDS, Publisher, publisher
from support.stored import cause_id

ID = UUID("12345678-1234-5678-1234-567812345678")
CORRELATION = UUID("00000000-0000-4000-8000-00000000000c")
UNIT: Any = SimpleNamespace(idempotency_key="g/t/0@1", correlation=CORRELATION)
OTHER: Any = SimpleNamespace(idempotency_key="g/t/0@2", correlation=None)
BEFORE = ("x/y/0@7", "00000000-0000-4000-8000-00000000000d")
LOGGED = (
    "select payload::text, key, transaction_id::text, cause, correlation::text, xid::text"
    " from gapless.outbox_message_t order by id"
)
COUNTS = [1, 2, 200, 201, 203, 420]
CLEAN = "delete from gapless.outbox_message_t; delete from gapless.scheduled; delete from gapless.dedupe"


@pytest.fixture(scope="module")
def looker(module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn:
        for name in ("orders", "other"):
            conn.execute(
                "select gapless.create_topic(%s, 1), gapless.create_group('mail', %s)", [name, name]
            )
        conn.execute("select gapless.set_direct('orders')")
        yield conn


@pytest.fixture(scope="module", params=KINDS)
def shared(
    request: pytest.FixtureRequest, module_dsn: str, looker: Connection[Any]
) -> Iterator[Publisher]:
    with publisher(module_dsn, request.param) as made:
        yield made


@pytest.fixture
def own(shared: Publisher, looker: Connection[Any]) -> Iterator[Publisher]:
    """A publisher in autocommit; nothing is published yet."""
    yield shared
    shared.execute("rollback")
    looker.execute(CLEAN)


def rows(looker: Connection[Any]) -> list[Any]:
    return looker.execute(LOGGED).fetchall()


def events(count: int, special: dict[int, dict[str, Any]] = {}) -> Any:  # noqa: B006 - nobody changes it
    made = [NewEvent(payload=n, key=f"k{n}", **special.get(n, {})) for n in range(count)]
    return made[0] if count == 1 else iter(made)


def own_id(xid: str) -> str:
    digits = f"{int(xid):016x}"
    return f"00000000-0000-8000-8{digits[1:4]}-{digits[4:]}"


SPECIAL: dict[str, Any] = {
    "plain": lambda count: {},
    "the last with a key": lambda count: {count - 1: {"dedupe_key": "d"}},
    "the first with a key": lambda count: {0: {"dedupe_key": "d"}},
    "the last to a group": lambda count: {count - 1: {"to_group": "mail"}},
    "one of its own": lambda count: {count // 2: {"transaction_id": ID}},
}  # fmt: skip


@pytest.mark.few(18)
@pytest.mark.parametrize("unit", [None, UNIT, OTHER], ids=["alone", "chain", "first"])
@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("count", COUNTS)
def test_all_are_one_transaction_in_their_order(
    own: Publisher, looker: Connection[Any], count: int, what: str, unit: Any
) -> None:
    """With what was said of each, what they came of, and the id by which they are found."""
    special = SPECIAL[what](count)
    told = own.publish("orders", events(count, special), cause=unit)
    found = rows(looker)
    xid = found[0][-1]
    cause = unit.idempotency_key if unit else None
    correlation = str(unit.correlation) if unit and unit.correlation else None
    caused = cause_id(cause) if cause else None
    ids = [str(special.get(n, {}).get("transaction_id") or caused) for n in range(count)]
    assert found == [
        (str(n), f"k{n}", None if ids[n] == "None" else ids[n], cause, correlation, xid)
        for n in range(count)
    ]
    known = caused or own_id(xid)
    if count == 1 and what == "one of its own":
        known = str(ID)
    assert str(told) == known
    if "key" in what or "group" in what:
        assert isinstance(told, Published)
        assert (told.duplicate, told.duplicates, told.scheduled_ids) == (False, 0, ())
    else:
        assert type(told) is UUID
    assert own.is_idle


@pytest.mark.parametrize("count", COUNTS)
def test_what_came_before_is_told(own: Publisher, looker: Connection[Any], count: int) -> None:
    """Of each how often, and of all of them the id of the first."""
    special = {n: {"dedupe_key": f"d{n}"} for n in range(count)}
    first = own.publish("orders", events(count, special), cause=UNIT)
    assert {row[3] for row in rows(looker)} == {"g/t/0@1"}
    again = own.publish("orders", events(count, special), cause=OTHER)
    assert isinstance(again, Published)
    assert (str(again), again.duplicate, again.duplicates) == (str(first), True, count)
    half = own.publish("orders", events(count + 1, special), cause=OTHER)
    assert isinstance(half, Published)
    assert (str(half), half.duplicate, half.duplicates) == (cause_id("g/t/0@2"), False, count)
    assert [row[0] for row in rows(looker)] == [*map(str, range(count)), str(count)]


@pytest.mark.parametrize("count", [1, 2, 203])
def test_the_numbers_of_what_waits(own: Publisher, looker: Connection[Any], count: int) -> None:
    told = own.publish("orders", events(count, {n: {"deliver_in": 60 + n} for n in range(count)}))
    assert isinstance(told, Published)
    waiting = looker.execute(
        "select scheduled_id, payload::text from gapless.scheduled order by deliver_at"
    ).fetchall()
    assert [payload for _, payload in waiting] == [str(n) for n in range(count)]
    assert told.scheduled_ids == tuple(number for number, _ in waiting)
    assert (told.duplicate, told.duplicates, rows(looker)) == (False, 0, [])


@pytest.mark.few(12)
@pytest.mark.parametrize("what", ["plain", "the last with a key", "the last to a group"])
@pytest.mark.parametrize("count", [1, 2, 203])
@pytest.mark.parametrize("ends", ["commit", "rollback"])
@pytest.mark.parametrize("before", [("", ""), BEFORE])
def test_in_the_caller_s_transaction_it_is_the_caller_s(
    own: Publisher,
    looker: Connection[Any],
    count: int,
    what: str,
    ends: str,
    before: tuple[str, str],
) -> None:
    """Nothing is there before its end; what was said before holds again."""
    own.execute("begin")
    own.execute(
        f"select set_config('gapless.cause', '{before[0]}', true), set_config('gapless.correlation', '{before[1]}', true)"
    )
    own.publish("orders", events(count, SPECIAL[what](count)), cause=UNIT)
    assert rows(looker) == []
    own.publish("other", NewEvent(payload="beside"))
    own.execute(ends)
    found = rows(looker)
    if ends == "rollback":
        assert found == []
        return
    assert len({row[-1] for row in found}) == 1
    assert [row[3:5] for row in found[:count]] == [("g/t/0@1", str(CORRELATION))] * count
    assert found[count:] == [
        (
            '"beside"',
            None,
            cause_id(before[0]) if before[0] else None,
            before[0] or None,
            before[1] or None,
            found[0][-1],
        )
    ]


def test_what_is_being_handled_is_the_cause(looker: Connection[Any]) -> None:
    """Unless it is said."""
    token = handling.set(Handling(UNIT))
    try:
        publish(looker, "orders", 1)
        publish(looker, "orders", 2, cause=OTHER)
    finally:
        handling.reset(token)
    publish(looker, "orders", 3)
    assert [row[3] for row in rows(looker)] == ["g/t/0@1", "g/t/0@2", None]
    looker.execute(CLEAN)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no group": ({"to_group": "nobody"}, 'topic "orders" has no group "nobody"'),
    "no key": ({"dedupe_key": ""}, "dedupe_key must have 1 to 500 characters, not 0"),
    "no text": ({"event_type": 5}, "event_type must be text, not int"),
    "no Unicode": (
        {"event_type": "\ud800"},
        "text that is not valid Unicode cannot be stored: |invalid input for",
    ),
    "no time": ({"deliver_in": -1}, "deliver_in"),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("count", [1, 2, 201, 450])
def test_one_that_cannot_be_stored_and_all_are_not(
    own: Publisher, looker: Connection[Any], count: int, what: str, within: bool
) -> None:
    """Whoever catches the error in a transaction of his own cannot commit a part of them."""
    fields, why = BAD[what]
    special = {count // 2: {"dedupe_key": "good"}, count - 1: fields}
    if within:
        own.execute("begin")
    with pytest.raises(PublishError, match=f"^{why}"):
        own.publish("orders", events(count, special), cause=UNIT)
    if within and count > 200 and own.copies:
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            own.execute("select 1")
    own.execute("commit")
    assert rows(looker) == []
    assert looker.execute("select count(*) from gapless.dedupe").fetchone() == (0,)


@pytest.mark.parametrize("count", [0, 1, 2, 201])
def test_a_topic_that_is_not_there(own: Publisher, looker: Connection[Any], count: int) -> None:
    for what in (events(count), iter([NewEvent(payload=1, dedupe_key="d")] * max(count, 1))):
        with pytest.raises(PublishError) as caught:
            own.publish("order", what)
        assert (
            str(caught.value)
            == 'topic "order" does not exist: create it with gapless topics create order'
        )
    assert rows(looker) == []


def test_none_is_none(own: Publisher, looker: Connection[Any]) -> None:
    for unit in (None, UNIT):
        assert type(own.publish("orders", iter(()), cause=unit)) is UUID
    assert rows(looker) == []


@pytest.mark.parametrize(
    "statement", ["set transaction read only", "set local statement_timeout = 1"]
)
def test_the_database_s_trouble_stays_what_it_is(own: Publisher, statement: str) -> None:
    own.execute("begin")
    own.execute(statement)
    with pytest.raises(ERROR) as caught:
        own.publish("orders", "x")
        own.execute("select pg_sleep(9)")
    error: Any = caught.value
    assert getattr(error, "pgcode", None) or error.sqlstate in ("25006", "57014")
