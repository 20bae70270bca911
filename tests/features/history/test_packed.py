"""Packed hours: they give back what was recorded, in few bytes."""

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from features.history.minutes import HOUR, add, handle, read, record
from gapless.log.topics import ensure_topic
from support.records import value

NUMBERS = st.one_of(
    st.none(),
    st.integers(0, 3),
    st.integers(-300, 70_000),
    st.integers(0, 2**24),
    st.integers(-(2**61), 2**61),
)
STEPS = st.tuples(
    st.sampled_from([1, 1, 1, 1, 2, 7, 30, 61, -1, -3, 0]), st.integers(0, 3), st.integers(0, 3)
)
QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(numbers=st.lists(NUMBERS, min_size=1, max_size=60))
@example([7, 7, 7])
@example([0, 254, None])
@example([0, 255])
@example([5, 65_540])
@example([None])
@QUICK
def test_numbers_come_back(conn: Connection[Any], numbers: list[int | None]) -> None:
    assert numbers == value(
        conn,
        "select gapless.unpack_numbers(gapless.pack_numbers(n), cardinality(n))"
        " from (select %s::bigint[] as n) n",
        numbers,
    )


@given(steps=st.lists(STEPS, min_size=1, max_size=12))
@settings(QUICK, max_examples=25)
def test_a_history_is_read_as_it_was(
    conn: Connection[Any], steps: list[tuple[int, int, int]]
) -> None:
    """Minutes pass, are left out, or come again; whatever is packed, the rows are the model's."""
    _forget(conn)
    end, place, minute = _standing(conn)
    model = Model()
    for forward, published, handled in steps:
        minute += forward
        add(conn, published) if published else None
        handle(conn, handled)
        end, place = end + published, place + handled
        record(conn, minute)
        model.record(minute, end, place)
    found = {n: (each.lag, each.handled) for n, each in read(conn).items()}
    assert found == model.groups
    topics = {n: each.published for n, each in read(conn, None, "orders").items()}
    assert topics == model.topics


class Model:
    """The rows that should be there: a minute once, and counts only from one to the next."""

    def __init__(self) -> None:
        self.groups: dict[int, tuple[int, int | None]] = {}
        self.topics: dict[int, int | None] = {}
        self._last: int | None = None
        self._then = (0, 0)

    def record(self, minute: int, end: int, place: int) -> None:
        if minute in self.groups:
            if minute != self._last:
                self._last = None
            return
        goes_on = self._last == minute - 1
        ended, placed = self._then
        self.groups[minute] = max(end - place, 0), place - placed if goes_on else None
        self.topics[minute] = end - ended if goes_on else None
        self._last, self._then = minute, (end, place)


def _forget(conn: Connection[Any]) -> None:
    conn.execute("delete from gapless.history_series")
    conn.execute("delete from gapless.history_clock")
    conn.execute("update gapless.history_state set last_minute = null, last_ts = null")


def _standing(conn: Connection[Any]) -> tuple[int, int, int]:
    """Group billing in topic orders, made unless it is there: the ends of both, and a minute."""
    ensure_topic(conn, "orders", partitions=1)
    if value(conn, "select count(*) from gapless.consumer_group") == 0:
        conn.execute("select gapless.create_group('billing', 'orders')")
    said = "select last_offset, next_offset - 1 from gapless.lag"
    end, place = conn.execute(said).fetchone() or (0, 0)
    return end, place, 30


def test_a_busy_hour_of_a_group_takes_few_bytes_a_minute(conn: Connection[Any]) -> None:
    """100 groups that change each minute, by thousands of events: with index, at most 20 bytes."""
    conn.execute("select gapless.create_topic('orders', 1)")
    conn.execute("select gapless.create_group('g' || n, 'orders') from generate_series(1, 100) n")
    record(conn, 0)
    conn.execute("delete from gapless.history_minute")
    hour = int(HOUR.timestamp()) // 3600
    for n in range(hour, hour + 4):
        conn.execute(
            "insert into gapless.history_minute"
            " select s.series_no, %(hour)s * 60 + m, random() * 50000,"
            " %(hour)s::bigint * 3600 + m * 60 - random() * 900, 50000 + random() * 60000, null,"
            " m / 20, 3"
            " from gapless.history_series s, generate_series(0, 59) m where s.group_id is not null",
            {"hour": n},
        )
        recorded = read(conn, "g7")
        packed = [value(conn, "select gapless.pack_history(%s, 40)", n) for _ in range(4)]
        assert packed == [40, 40, 20, 0], "a slice at a time"
        assert read(conn, "g7") == recorded
    assert value(conn, "select count(*) from gapless.history_hour") == 400
    size = value(conn, "select pg_total_relation_size('gapless.history_hour')")
    assert size / (4 * 60 * 100) <= 20
