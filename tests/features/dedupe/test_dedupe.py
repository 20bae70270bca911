"""Keyed publishes: one event for each dedupe_key within a topic's window, whoever repeats, whenever.

The last part kills a producer where it cannot know whether its COMMIT was done; it repeats, and there
is one event.
"""

import copy
import multiprocessing
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from gapless import NewEvent, Published, PublishError, failpoints
from gapless.db.connect import connect
from gapless.features.retention.chunks import HistoryRetention, apply_retention
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic, set_dedupe_window
from support.patience import patience
from support.publisher import Publisher, publisher

UNIT = UUID("12345678-1234-5678-1234-567812345678")
MANY = 450  # more than a COPY takes, and several blocks
KEEP = HistoryRetention(letters_s=1, audit_s=1)


@pytest.fixture(params=["sync", "async"])
def own(request: pytest.FixtureRequest, dsn: str, topic: Topic) -> Iterator[Publisher]:
    """A publisher in autocommit."""
    with publisher(dsn, request.param) as made:
        yield made


@pytest.fixture
def other(dsn: str, topic: Topic) -> Iterator[Connection[Any]]:
    with connect(dsn, role="test") as made:
        yield made


def _payloads(conn: Connection[Any]) -> list[Any]:
    rows = conn.execute("select payload from gapless.outbox_message_t order by id")
    return [row[0] for row in rows]


def _keyed(count: int, start: int = 0) -> list[NewEvent]:
    return [NewEvent(payload=n, dedupe_key=f"k{n}") for n in range(start, start + count)]


def _value(conn: Connection[Any], statement: str, *params: object) -> Any:
    row = conn.execute(statement, params).fetchone()
    return None if row is None else row[0]


class Waiting:
    """A publish in a thread of its own, that may have to wait for another transaction."""

    def __init__(self, conn: Connection[Any], key: str, payload: object) -> None:
        self.result: Any = None
        self._conn = conn
        self._thread = threading.Thread(target=self._run, args=(key, payload))
        self._thread.start()

    def _run(self, key: str, payload: object) -> None:
        try:
            self.result = publish(self._conn, "outbox", payload, dedupe_key=key)
        except psycopg.Error as error:
            self.result = error

    def until_it_waits(self, conn: Connection[Any]) -> None:
        give_up = time.monotonic() + patience(20)
        pid = self._conn.info.backend_pid
        while not _value(conn, "select cardinality(pg_blocking_pids(%s)) > 0", pid):
            assert self.result is None, f"it did not wait: {self.result!r}"
            assert time.monotonic() < give_up
            time.sleep(0.01)

    def done(self) -> Any:
        self._thread.join(patience(20))
        assert not self._thread.is_alive()
        return self.result


# -- one after the other ------------------------------------------------------------------------------


def test_the_second_one_is_told_who_was_first(conn: Connection[Any], own: Publisher) -> None:
    first = own.publish("outbox", 1, dedupe_key="order-17")
    second = own.publish("outbox", "another payload", dedupe_key="order-17", transaction_id=UNIT)
    assert isinstance(first, Published)
    assert isinstance(second, Published)
    assert (first.duplicate, first.duplicates) == (False, 0)
    assert (second.duplicate, second.duplicates) == (True, 1)
    assert first == second
    assert _payloads(conn) == [1]
    assert sequence(conn) == 1


def test_without_a_key_it_is_a_plain_uuid(own: Publisher) -> None:
    for what in (1, NewEvent(payload=1), [NewEvent(payload=1)] * 3, [NewEvent(payload=1)] * MANY):
        assert type(own.publish("outbox", what)) is UUID


def test_what_is_told_is_a_uuid_like_any_other(conn: Connection[Any], topic: Topic) -> None:
    publish(conn, "outbox", 1, dedupe_key="a")
    told = publish(conn, "outbox", 1, dedupe_key="a")
    assert isinstance(told, Published)
    for twin in (copy.copy(told), copy.deepcopy(told), pickle.loads(pickle.dumps(told))):
        assert (twin, twin.duplicate, twin.duplicates) == (told, True, 1)
    assert {told: 1}[UUID(str(told))] == 1
    assert _value(conn, "select %s::uuid", told) == told


@pytest.mark.few(3)
@pytest.mark.parametrize("count", [3, 200, 201, MANY])
def test_many(conn: Connection[Any], own: Publisher, count: int) -> None:
    first = own.publish("outbox", _keyed(count))
    again = own.publish("outbox", (event for event in _keyed(count)))
    half = own.publish("outbox", _keyed(count, start=count - 2))
    assert isinstance(first, Published)
    assert isinstance(again, Published)
    assert isinstance(half, Published)
    assert (first.duplicate, first.duplicates) == (False, 0)
    assert (again.duplicate, again.duplicates) == (True, count)
    assert again == first
    assert (half.duplicate, half.duplicates) == (False, 2)
    assert half != first
    assert _payloads(conn) == list(range(count + count - 2))
    assert sequence(conn) == 2 * count - 2


@pytest.mark.parametrize("count", [5, MANY])
def test_keyed_among_others_keep_their_order(
    conn: Connection[Any], own: Publisher, count: int
) -> None:
    events = [
        NewEvent(payload=n, dedupe_key=str(n) if n in {1, count - 2} else None)
        for n in range(count)
    ]
    told = own.publish("outbox", events)
    assert isinstance(told, Published)
    assert _payloads(conn) == list(range(count))
    again = own.publish("outbox", events)
    assert isinstance(again, Published)
    assert (again.duplicate, again.duplicates) == (False, 2), "those without a key come twice"
    assert _payloads(conn)[count:] == [n for n in range(count) if n not in {1, count - 2}]


def test_two_in_one_transaction(conn: Connection[Any], topic: Topic) -> None:
    with conn.transaction():
        first = publish(conn, "outbox", 1, dedupe_key="a")
        assert publish(conn, "outbox", 2, dedupe_key="a") == first
        twice = publish(conn, "outbox", [NewEvent(payload=3, dedupe_key="b")] * 2)
    assert isinstance(twice, Published)
    assert twice.duplicates == 1
    assert _payloads(conn) == [1, 3]


def test_what_is_rolled_back_frees_the_key(conn: Connection[Any], topic: Topic) -> None:
    with conn.transaction():
        with conn.transaction(force_rollback=True):
            publish(conn, "outbox", "of the savepoint", dedupe_key="a")
        told = publish(conn, "outbox", "after it", dedupe_key="a")
    assert isinstance(told, Published)
    assert not told.duplicate
    with conn.transaction(force_rollback=True):
        publish(conn, "outbox", 1, dedupe_key="b")
    publish(conn, "outbox", 2, dedupe_key="b")
    assert _payloads(conn) == ["after it", 2]


def test_in_sql(conn: Connection[Any], topic: Topic) -> None:
    first = _value(conn, "select gapless.publish('outbox', '1', dedupe_key => 'a')")
    assert _value(conn, "select gapless.publish('outbox', '2', 'k', dedupe_key => 'a')") == first
    message_id = _value(conn, "select id from gapless.outbox_message_t")
    statement = "select * from gapless.publish_once('outbox', '3', %s, key => 'k')"
    assert conn.execute(statement, ["a"]).fetchall() == [(first, message_id, True, None)]
    new = conn.execute(statement, ["b"]).fetchone()
    assert new is not None
    assert new[1:] == (_value(conn, "select max(id) from gapless.outbox_message_t"), False, None)
    rows = conn.execute(
        "select message_id is null, duplicate from gapless.publish_each('outbox',"
        " array['1', '2', '3'], dedupe_keys => array['a', null, 'c'])"
    ).fetchall()
    assert rows == [(False, True), (True, False), (False, False)]
    conn.execute("insert into gapless.outbox_message_t (payload) values ('4')")
    assert _payloads(conn) == [1, 3, 2, 3, 4]


# -- bad input ----------------------------------------------------------------------------------------

BAD: dict[str, Any] = {
    "has 0": "",
    "501": "x" * 501,
    "NUL": "a\0b",
    "not int": 17,
    "not bytes": b"order-17",
    "not list": ["a"],
}


@pytest.mark.writes_nothing
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("count", [1, 3, MANY])
def test_bad_keys_are_one_line_and_nothing_is_written(
    conn: Connection[Any], own: Publisher, bad: object, count: int
) -> None:
    events = [NewEvent(payload=n) for n in range(count)]
    events[count // 2].dedupe_key = "good"
    events[-1].dedupe_key = bad  # type: ignore[assignment]
    with pytest.raises(PublishError, match="dedupe_key") as caught:
        own.publish("outbox", events[0] if count == 1 else events)
    assert "\n" not in str(caught.value)
    assert _payloads(conn) == []
    assert _value(conn, "select count(*) from gapless.dedupe") == 0


def test_nobody_commits_a_part(conn: Connection[Any], topic: Topic) -> None:
    """Who catches the error in a transaction of his own finds it aborted, as after any other one."""
    events = [*(NewEvent(payload=n) for n in range(201)), *_keyed(300)]
    events[-1].dedupe_key = ""
    with pytest.raises(psycopg.errors.InFailedSqlTransaction), conn.transaction():
        with pytest.raises(PublishError):
            publish(conn, "outbox", events)
        conn.execute("select 1")
    assert _payloads(conn) == []


def test_the_longest_key_and_other_characters(conn: Connection[Any], own: Publisher) -> None:
    for key in ("\U0001f600" * 500, " ", "é", "e\u0301", "'; --"):
        own.publish("outbox", key, dedupe_key=key)
        again = own.publish("outbox", key, dedupe_key=key)
        assert isinstance(again, Published)
        assert again.duplicate
    assert len(_payloads(conn)) == 5


# -- two at once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_the_second_waits_for_the_first(
    conn: Connection[Any], other: Connection[Any], dsn: str, ends: str
) -> None:
    with connect(dsn, role="test") as looker:
        conn.execute("begin")
        publish(conn, "outbox", "first", dedupe_key="a")
        waiting = Waiting(other, "a", "second")
        waiting.until_it_waits(looker)
        publish(looker, "outbox", "committed meanwhile")
        conn.execute(ends.encode())
        assert waiting.done().duplicate == (ends == "commit")
        last = "first" if ends == "commit" else "second"
        assert sorted(_payloads(conn)) == sorted(["committed meanwhile", last])
        if ends == "rollback":  # I4: it committed before the second one stored its event
            assert _payloads(conn) == ["committed meanwhile", "second"]


def test_a_savepoint_rolled_back_lets_the_second_go_on(
    conn: Connection[Any], other: Connection[Any], dsn: str
) -> None:
    with connect(dsn, role="test") as looker, conn.transaction():
        conn.execute("savepoint s")
        publish(conn, "outbox", "first", dedupe_key="a")
        waiting = Waiting(other, "a", "second")
        waiting.until_it_waits(looker)
        conn.execute("rollback to savepoint s")
        assert not waiting.done().duplicate
    assert _payloads(conn) == ["second"]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_what_a_snapshot_cannot_see_is_a_serialization_failure(
    conn: Connection[Any], other: Connection[Any], level: str
) -> None:
    conn.execute(f"begin isolation level {level}".encode())
    conn.execute("select from gapless.topic")
    publish(other, "outbox", "other", dedupe_key="a")
    with pytest.raises(psycopg.errors.SerializationFailure):
        publish(conn, "outbox", "mine", dedupe_key="a")
    conn.execute("rollback")
    conn.execute(f"begin isolation level {level}".encode())
    told = publish(conn, "outbox", "mine", dedupe_key="a")
    conn.execute("commit")
    assert isinstance(told, Published)
    assert told.duplicate


def _produce(dsn: str, keys: int, seed: int) -> None:
    """Publish each key, sometimes in a transaction that takes long or is rolled back, and repeat."""
    with connect(dsn, role="test") as mine:
        for n in range(keys):
            with mine.transaction(force_rollback=(n + seed) % 3 == 0):
                publish(mine, "outbox", n, dedupe_key=f"k{n}")
                if (n + seed) % 5 == 0:
                    mine.execute("select pg_sleep(0.005)")
            publish(mine, "outbox", n, dedupe_key=f"k{n}")


@pytest.mark.long
def test_many_at_once_repeat_the_same_keys_while_slots_turn(
    dsn: str, conn: Connection[Any], topic: Topic
) -> None:
    """Each key once, whoever was first, with rollbacks and ever new slots."""
    keys, turns = 150, set()
    producers = [threading.Thread(target=_produce, args=(dsn, keys, seed)) for seed in range(6)]
    for each in producers:
        each.start()
    while any(each.is_alive() for each in producers):
        conn.execute("update gapless.dedupe_state set since_ts = '2000-01-01'")
        _turn(conn)
        turns.add(_value(conn, "select slot from gapless.dedupe_state"))
    assert sorted(_payloads(conn)) == list(range(keys))
    assert len(turns) > 1, "slots were turned"


# -- the window, and the slots ------------------------------------------------------------------------


def _turn(conn: Connection[Any]) -> None:
    apply_retention(conn, KEEP)


def _age(conn: Connection[Any], seconds: float) -> None:
    """Let that much time have passed for all that is remembered."""
    conn.execute(
        "update gapless.dedupe set published_ts = published_ts - make_interval(secs => %s)",
        [seconds],
    )
    conn.execute(
        "update gapless.dedupe_state set since_ts = since_ts - make_interval(secs => %s)", [seconds]
    )
    conn.execute(
        "update gapless.dedupe_slot set closed_ts = closed_ts - make_interval(secs => %s)",
        [seconds],
    )


def _state(conn: Connection[Any]) -> tuple[Any, ...]:
    row = conn.execute("select slot, closing, closed from gapless.dedupe_state").fetchone()
    assert row is not None
    return tuple(row)


def _is_duplicate(conn: Connection[Any], key: str) -> bool:
    told = publish(conn, "outbox", key, dedupe_key=key)
    assert isinstance(told, Published)
    return told.duplicate


def _slots(conn: Connection[Any]) -> list[tuple[Any, ...]]:
    return conn.execute("select slot, dedupe_key from gapless.dedupe order by 2, 1").fetchall()


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati"])
def test_a_key_is_forgotten_after_the_window_of_its_topic(
    conn: Connection[Any], topic: Topic, zone: str
) -> None:
    conn.execute(f"set timezone = '{zone}'".encode())
    ensure_topic(conn, "brief", partitions=1, dedupe_window_s=3600)
    for name in ("brief", "outbox"):
        publish(conn, name, 1, dedupe_key="a")
    _age(conn, 3590)
    told = publish(conn, "brief", 2, dedupe_key="a")
    assert isinstance(told, Published)
    assert told.duplicate
    _age(conn, 20)
    told = publish(conn, "brief", 3, dedupe_key="a")
    assert isinstance(told, Published)
    assert not told.duplicate
    assert publish(conn, "brief", 4, dedupe_key="a") == told
    assert _is_duplicate(conn, "a")
    assert _payloads(conn) == [1, 1, 3]
    set_dedupe_window(conn, "outbox", 60)
    assert not _is_duplicate(conn, "a")


def test_the_default_is_seven_days(conn: Connection[Any], topic: Topic) -> None:
    publish(conn, "outbox", 1, dedupe_key="a")
    _age(conn, 7 * 86400 - 60)
    assert _is_duplicate(conn, "a")
    _age(conn, 120)
    assert not _is_duplicate(conn, "a")


def test_a_key_is_a_duplicate_in_whatever_slot_it_is(conn: Connection[Any], topic: Topic) -> None:
    """It is met while slots are turned, and after; its storage goes when it is too old, whole."""
    day = 86400
    publish(conn, "outbox", "a", dedupe_key="a")
    _turn(conn)
    assert _state(conn) == (0, None, []), "too early"
    _age(conn, 4 * day)
    _turn(conn)
    assert _state(conn) == (1, None, [0])
    assert _is_duplicate(conn, "a")
    publish(conn, "outbox", "b", dedupe_key="b")
    assert _slots(conn) == [(0, "a"), (1, "b")]
    _age(conn, 3.2 * day)
    assert not _is_duplicate(conn, "a"), "older than 7 days"
    assert _slots(conn) == [(0, "a"), (1, "a"), (1, "b")]
    _turn(conn)
    assert _state(conn) == (1, None, [0]), "what came last there may be younger"
    _age(conn, 4 * day)
    node = _value(conn, "select pg_relation_filenode('gapless.dedupe_0')")
    _turn(conn)
    assert 0 not in _state(conn)[2]
    assert _value(conn, "select count(*) from gapless.dedupe_0") == 0
    assert _value(conn, "select pg_relation_filenode('gapless.dedupe_0')") != node, "dropped whole"
    assert _is_duplicate(conn, "a")


def test_two_on_both_sides_of_a_turn(
    conn: Connection[Any], other: Connection[Any], dsn: str
) -> None:
    """One that knows nothing of the new slot, one that does: the second waits, and is a duplicate."""
    with connect(dsn, role="test") as looker:
        publish(looker, "outbox", 0, dedupe_key="old")
        conn.execute("begin")
        publish(conn, "outbox", "first", dedupe_key="a")
        _age(looker, 4 * 86400)
        for _ in range(3):
            _turn(looker)
        assert _state(looker) == (1, 0, []), "it is not over while the first one is in progress"
        assert _is_duplicate(looker, "old")
        waiting = Waiting(other, "a", "second")
        waiting.until_it_waits(looker)
        publish(looker, "outbox", "in both", dedupe_key="b")
        assert [key for _, key in _slots(looker)] == ["b", "b", "old"]
        conn.execute("commit")
        assert waiting.done().duplicate
        _turn(looker)
        assert _state(looker) == (1, None, [0])
        assert all(_is_duplicate(looker, key) for key in ("a", "b", "old"))
        messages = looker.execute("select distinct dedupe_key, message_id from gapless.dedupe")
        assert len(messages.fetchall()) == 3, "both slots say the same"


def test_a_snapshot_from_before_a_turn_is_refused(
    conn: Connection[Any], other: Connection[Any]
) -> None:
    """It would write to the old slot alone, where nobody meets it any more."""
    conn.execute("begin isolation level repeatable read")
    conn.execute("select from gapless.topic")
    publish(other, "outbox", "before", dedupe_key="b")
    _age(other, 4 * 86400)
    _turn(other)
    assert _state(other) == (1, None, [0])
    publish(other, "outbox", "other", dedupe_key="a")
    with pytest.raises(psycopg.errors.SerializationFailure):
        publish(conn, "outbox", "mine", dedupe_key="a")
    conn.execute("rollback")
    assert _payloads(other) == ["before", "other"]


def test_a_publisher_that_stays_open_keeps_no_slot_from_being_emptied_for_ever(
    conn: Connection[Any], other: Connection[Any]
) -> None:
    publish(other, "outbox", 1, dedupe_key="a")
    _age(other, 4 * 86400)
    _turn(other)
    conn.execute("begin")
    publish(conn, "outbox", 2, dedupe_key="b")  # has looked into slot 0
    _age(other, 8 * 86400)
    _turn(other)
    assert _value(other, "select count(*) from gapless.dedupe_0") == 1, "it is in use"
    with connect(other.info.dsn, role="test") as third, third.transaction():
        publish(third, "outbox", 3, dedupe_key="c")  # nobody looks into it any more
        conn.execute("commit")
        _turn(other)
        assert _value(other, "select count(*) from gapless.dedupe_0") == 0


# -- only keyed publishes pay -------------------------------------------------------------------------


def test_without_a_key_nothing_of_dedupe_is_touched(conn: Connection[Any], topic: Topic) -> None:
    with conn.transaction():
        publish(conn, "outbox", 1)
        publish(conn, "outbox", [NewEvent(payload=n) for n in range(5)])
        publish(conn, "outbox", [NewEvent(payload=n) for n in range(MANY)])
        conn.execute("select gapless.publish('outbox', '1')")
        locked = (
            "select count(*) from pg_locks k join pg_class c on c.oid = k.relation"
            " where k.pid = pg_backend_pid() and starts_with(c.relname, 'dedupe')"
        )
        assert _value(conn, locked) == 0
        publish(conn, "outbox", 1, dedupe_key="a")
        assert _value(conn, locked) > 0


@pytest.mark.long
def test_a_look_at_keys_is_an_index_look_up_whatever_was_planned(
    conn: Connection[Any], topic: Topic
) -> None:
    """Plans are kept; these are made when the slot is empty, and analysed as such."""
    conn.execute("vacuum analyze gapless.dedupe_0")
    for n in range(10):
        publish(conn, "outbox", n, dedupe_key=f"first {n}")
    conn.execute(
        "insert into gapless.dedupe select 0, 1, 'n' || n, gen_random_uuid(), n, clock_timestamp()"
        " from generate_series(1, 20000) n"
    )
    scans = "select seq_scan from pg_stat_xact_user_tables where relname = 'dedupe_0'"
    with conn.transaction():  # its own counts are there at once
        before = _value(conn, scans)
        for n in range(10):
            assert _is_duplicate(conn, f"n{n + 1}")
            assert not _is_duplicate(conn, f"new {n}")
        assert _value(conn, scans) == before


# -- a producer dies where it cannot know -------------------------------------------------------------


def _die_after_commit(dsn: str, what: str) -> None:
    """Send COMMIT, or a publish that commits by itself, and die before the answer is read."""
    with psycopg.connect(dsn) as conn:
        if what == "commit":
            publish(conn, "outbox", 1, dedupe_key="order-17")
            conn.pgconn.send_query(b"commit")
        else:
            conn.pgconn.send_query(
                b"select gapless.publish('outbox', '1', dedupe_key => 'order-17')"
            )
        os.kill(os.getpid(), signal.SIGKILL)


def _die_at(dsn: str, point: str, count: int, autocommit: bool) -> None:
    failpoints.arm({point: "kill"})
    with psycopg.connect(dsn, autocommit=autocommit) as conn:
        publish(conn, "outbox", _keyed(count) if count > 1 else _keyed(1)[0])
    os._exit(0)


def _killed(target: Callable[..., None], *args: object) -> None:
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    child.start()
    child.join(patience(30))
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("what", ["commit", "autocommit"])
def test_killed_between_commit_and_its_answer(
    conn: Connection[Any], dsn: str, topic: Topic, what: str
) -> None:
    _killed(_die_after_commit, dsn, what)
    publish(conn, "outbox", 1, dedupe_key="order-17")
    assert _payloads(conn) == [1]
    assert sequence(conn) == 1


@pytest.mark.few(3)
@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("count", [1, 3, MANY])
@pytest.mark.parametrize("point", ["publish.before", "keyed.stored", "publish.after"])
def test_killed_at_each_point(
    conn: Connection[Any], dsn: str, topic: Topic, point: str, count: int, autocommit: bool
) -> None:
    _killed(_die_at, dsn, point, count, autocommit)
    for _ in range(2):
        publish(conn, "outbox", _keyed(count))
    assert _payloads(conn) == list(range(count))


def test_the_answer_of_commit_is_lost(conn: Connection[Any], dsn: str, topic: Topic) -> None:
    """The line is cut, the producer lives, and repeats as is told."""
    with psycopg.connect(dsn) as mine:
        first = publish(mine, "outbox", 1, dedupe_key="order-17")
        with socket.socket(fileno=os.dup(mine.fileno())) as line:
            line.shutdown(socket.SHUT_RD)
        with pytest.raises(psycopg.OperationalError):
            mine.commit()
    again = publish(conn, "outbox", 1, dedupe_key="order-17")
    assert isinstance(again, Published)
    assert _payloads(conn) == [1]
    assert (again == first) == again.duplicate
