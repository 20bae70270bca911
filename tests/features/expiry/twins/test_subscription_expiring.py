"""expire_subscriptions(): exactly those whose time is over go, of each group by itself; the clock of that."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.fleet import until
from support.subscribed import HERE, PLACES, rows, stop, subscribe
from support.twins import Twins

EXPIRE = "select group_id, topic, subscriptions from gapless.expire_subscriptions(%s)"
SET = (
    "update gapless.subscription set expires_after = %s::interval, renewed_at = %s where name = %s"
)
STANDS = "update gapless.expiry_clock set watched = '10 days', looked_ts = '2999-01-01Z'"
# When each was renewed, after how long it goes; whether it does when the clock says ten days.
TIMES: dict[str, tuple[str | None, str, bool]] = {
    "a": ("1 day", "9 days", True),
    "b": ("1 day", "9 days 00:00:00.000001", False),
    "c": (None, "0", False),
    "d": ("00:01:00", "0", True),
    "e": ("10 days", "-1 us", True),
    "f": ("10 days", "1 us", False),
}
GONE = ["a", "d", "e"]
IDLE = {"a": "1 day", "d": "10 days", "e": "10 days 00:00:00.000001"}


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    for place in PLACES:
        for name in TIMES:
            subscribe(shared, name, place, match={"c": "$.c"}, params={"c": 1})
    for name, (after, renewed, _) in TIMES.items():
        shared.conn.execute(SET, [after, renewed, name])
    stop(shared, "n = 1")
    shared.conn.execute(STANDS)
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        yield settled


def look(twins: Twins) -> tuple[list[Any], list[str], list[tuple[Any, ...]]]:
    """What a look says, which rows went, and what was audited, of each group in turn."""
    before = rows(twins)
    last = twins.value("select coalesce(max(audit_id), 0) from gapless.audit")
    twins.conn.execute(STANDS)
    answer = twins.conn.execute(EXPIRE, [3600]).fetchall()
    after = rows(twins)
    assert all(before[name] == row for name, row in after.items())
    audited = twins.conn.execute(
        "select a.action, a.group_id, t.name, a.detail from gapless.audit a join gapless.topic t using (topic_id)"
        " where audit_id > %s order by 2, 3, detail ->> 'name'",
        [last],
    ).fetchall()
    return answer, sorted(before.keys() - after.keys()), audited


def gone(*places: tuple[str, str]) -> tuple[list[Any], list[str], list[tuple[Any, ...]]]:
    """What a look is to say when these groups are looked at."""
    kinds = ("subscription {} {} {}", "stop {} {} {} 1")
    return (
        [(*place, len(GONE)) for place in places],
        sorted(kind.format(*place, name) for kind in kinds for place in places for name in GONE),
        [
            ("expire_subscription", *place, {"name": n, "expires_after": TIMES[n][0], "idle": IDLE[n]})
            for place in sorted(places)
            for n in GONE
        ],
    )  # fmt: skip


def test_those_whose_time_is_over_go(twins: Twins) -> None:
    """To the microsecond; a second look finds nobody."""
    by_number = sorted(PLACES, key=lambda place: (place[0], twins.topic_ids[place[1]]))
    answer, went, audited = look(twins)
    assert (answer, went, audited) == gone(*by_number)
    assert look(twins) == ([], [], [])
    assert twins.value("select watched = '10 days' from gapless.expiry_clock")


def test_the_last_of_a_form_goes_with_it(twins: Twins) -> None:
    twins.conn.execute(SET, ["1 day", "0", "a"])
    twins.conn.execute("delete from gapless.subscription where name <> 'a' or group_id <> 'mail'")
    answer, went, _ = look(twins)
    assert answer == [
        ("mail", topic, 1)
        for topic in sorted(twins.topic_ids, key=lambda each: twins.topic_ids[each])
    ]
    assert [each for each in went if each.startswith("form")] == [
        f"form mail {topic} {{c}} {{$.c}}" for topic in ("orders", "other")
    ]


@pytest.fixture
def other(module_dsn: str, twins: Twins) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn, conn.transaction(force_rollback=True):
        yield conn


def test_whose_are_being_changed_keep_them_for_now(twins: Twins, other: Connection[Any]) -> None:
    """Nobody waits for them, and the other groups' go."""
    other.execute(
        "select from gapless.group_filter where group_id = %s and topic_id = %s for no key update",
        [HERE[0], twins.topic_ids[HERE[1]]],
    )
    twins.conn.execute("set local lock_timeout = '20ms'")
    others = sorted(
        (place for place in PLACES if place != HERE),
        key=lambda place: (place[0], twins.topic_ids[place[1]]),
    )
    assert look(twins) == gone(*others)


def test_who_has_none_that_goes_is_not_locked(twins: Twins, other: Connection[Any]) -> None:
    twins.conn.execute(
        "update gapless.subscription set renewed_at = '10 days' where group_id = 'mail'"
    )
    twins.conn.execute(EXPIRE, [3600])
    free = other.execute("select group_id from gapless.group_filter for no key update skip locked")
    assert free.fetchall() == [("mail",), ("mail",)]


def test_who_was_renewed_meanwhile_stays(module_dsn: str, settled: Twins) -> None:
    """A look waits for who renews some, and finds them renewed. (Committed, so set back.)"""
    waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    renew = "select gapless.renew_subscription('billing', 'orders', unnest(%s::text[]))"
    back = "update gapless.subscription set renewed_at = %s where name = %s"
    with connect(module_dsn, role="test") as a, connect(module_dsn, role="test") as b:
        try:
            with b.transaction(force_rollback=True), ThreadPoolExecutor(1) as pool:
                with a.transaction():
                    a.execute(renew, [GONE])
                    found = pool.submit(b.execute, EXPIRE, [3600])
                    until(lambda: settled.value(waits, b.info.backend_pid), "it waits")
                told = found.result().fetchall()
        finally:
            for name, (_, renewed, _) in TIMES.items():
                a.execute(back, [renewed, name])
    assert sorted(told) == [("billing", "other", 3), ("mail", "orders", 3), ("mail", "other", 3)]


def test_who_is_being_renewed_is_waited_for(twins: Twins, other: Connection[Any]) -> None:
    other.execute("select gapless.renew_subscription('billing', 'orders', 'a')")
    twins.conn.execute("set local lock_timeout = '20ms'")
    assert twins.refused(EXPIRE, [3600])[0] == "55P03"


def test_a_thousand_go_in_a_look_the_longest_idle_first(twins: Twins) -> None:
    twins.conn.execute(
        "delete from gapless.subscription where group_id <> 'billing' or name <> 'a'"
    )
    twins.conn.execute(
        "insert into gapless.subscription (group_id, topic_id, name, form_id, params, match_values, expires_after,"
        " renewed_at) select s.group_id, s.topic_id, 'n' || n, s.form_id, '{}', '[]', make_interval(mins => n), '0'"
        " from gapless.subscription s, generate_series(1, 501) n"
    )
    ids = sorted(twins.topic_ids, key=lambda each: twins.topic_ids[each])
    half = [("billing", topic, 500) for topic in ids]
    assert twins.conn.execute(EXPIRE, [0]).fetchall() == half
    left = "select array_agg(distinct name order by name) from gapless.subscription"
    assert twins.value(left) == ["a", "n501"]
    assert twins.conn.execute(EXPIRE, [0]).fetchall() == [("billing", topic, 2) for topic in ids]


@pytest.mark.parametrize(
    ("looked", "gap_s", "counts"),
    [
        ("2 h", 600, "00:10:00"),
        ("2 h", 7200, "01:00:00"),
        ("2 h", 3600, "01:00:00"),
        ("2 h", 0, "00:00:00"),
        ("2 h", -5, "00:00:00"),
        ("-2 h", 600, "00:00:00"),
    ],
)
def test_what_the_clock_counts_of_the_time_since_a_look(
    twins: Twins, looked: str, gap_s: float, counts: str
) -> None:
    """An hour at most; what a clock wrote that was ahead counts for nothing, and is mended."""
    set_back = "update gapless.expiry_clock set looked_ts = clock_timestamp() - %s::interval"
    twins.conn.execute(set_back, [looked])
    before = twins.value("select looked_ts from gapless.expiry_clock")
    reading = "01:00:00" if looked == "2 h" else "00:00:00"
    query = "select gapless.expiry_reading() = '10 days'::interval + %s::interval"
    assert twins.value(query, reading)
    twins.conn.execute(EXPIRE, [gap_s])
    state = (
        "select watched = '10 days'::interval + %s::interval, looked_ts from gapless.expiry_clock"
    )
    ((is_so, looked_ts),) = twins.conn.execute(state, [counts]).fetchall()
    assert is_so
    if looked == "2 h":
        assert twins.value("select %s - %s between '2 h' and '2 h 1 min'", looked_ts, before)
    else:
        assert twins.value("select %s <= clock_timestamp()", looked_ts)
