"""Filters of groups are set, changed and taken away; whoever did it is told whether that is a change."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import RefusedError
from gapless.features.filters.stored import check_filter, clear_filter, set_filter
from gapless.log.filter import ALL, Filter

HERE = ("billing", "orders")
FILTERS = (
    "select group_id, topic, event_types, condition, params from gapless.filters order by 1, 2"
)


@pytest.fixture(scope="module")
def groups(module_dsn: str) -> Iterator[Connection[Any]]:
    """Two groups of two topics each."""
    with connect(module_dsn, role="test") as conn:
        for topic in ("orders", "other"):
            conn.execute("select gapless.create_topic(%s, 2)", [topic])
            for group in ("billing", "mail"):
                conn.execute("select gapless.create_group(%s, %s)", [group, topic])
        yield conn


@pytest.fixture
def conn(groups: Connection[Any]) -> Iterator[Connection[Any]]:
    with groups.transaction(force_rollback=True):
        yield groups


def filters(conn: Connection[Any]) -> list[tuple[Any, ...]]:
    return conn.execute(FILTERS).fetchall()


def test_one_is_set_for_one_group_of_one_topic(conn: Connection[Any]) -> None:
    wanted = Filter(("a", "b*"), "$.x > $y", '{"y": 1}')
    assert set_filter(conn, *HERE, wanted) is True
    assert filters(conn) == [(*HERE, ["a", "b*"], '($."x" > $"y")', {"y": 1})]
    assert set_filter(conn, *HERE, wanted) is False
    assert set_filter(conn, *HERE, Filter(("a",))) is True
    assert filters(conn) == [(*HERE, ["a"], None, {})]


@pytest.mark.parametrize("cleared", [True, False], ids=["cleared", "set to all"])
def test_a_group_takes_all_again(conn: Connection[Any], cleared: bool) -> None:
    for place in (HERE, ("mail", "orders")):
        set_filter(conn, *place, Filter(("a",)))

    def clear() -> bool:
        return clear_filter(conn, *HERE) if cleared else set_filter(conn, *HERE, Filter(("*",)))

    assert clear() is True
    assert [row[:2] for row in filters(conn)] == [("mail", "orders")]
    assert clear() is False


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (ALL, None),
        (Filter(("a",)), None),
        (Filter(None, "$.x > $y", '{"y": 1}'), None),
        (Filter(None, "$.x > $y"), "no value for $y"),
        (Filter(None, "$.x >"), "no jsonpath"),
        (Filter(("a****",)), "at most 3"),
    ],
)
def test_it_is_known_before_whether_one_is_a_filter(
    conn: Connection[Any], wanted: Filter, why: str | None
) -> None:
    if why is None:
        check_filter(conn, wanted)
    else:
        with pytest.raises(RefusedError) as caught, conn.transaction():
            check_filter(conn, wanted)
        assert why in str(caught.value)
        with pytest.raises(RefusedError) as caught, conn.transaction():
            set_filter(conn, *HERE, wanted)
        assert why in str(caught.value)
    assert filters(conn) == []


@pytest.mark.parametrize("place", [("nobody", "orders"), ("billing", "nowhere")])
def test_a_place_that_is_not_there_is_said(conn: Connection[Any], place: tuple[str, str]) -> None:
    for call in (
        lambda: set_filter(conn, *place, Filter(("a",))),
        lambda: clear_filter(conn, *place),
    ):
        with pytest.raises(RefusedError, match=r"nobody|nowhere"), conn.transaction():
            call()
