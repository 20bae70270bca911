"""gapless.testing: what those who write handlers test them with; and the plugin of pytest."""

import subprocess
import sys
import types
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from psycopg import Connection

import gapless
from gapless import testing
from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.errors import UsageError
from gapless.testing import strategies
from support.commands import environment


@handler(topic="orders", group="till")
def till(unit: Unit, conn: Connection[Any]) -> None:
    for event in unit:
        gapless.publish(conn, "payments", event.payload, key=event.key)


@handler(topic="payments", group="store")
def store(unit: Unit, conn: Connection[Any]) -> None:
    for event in unit:
        if event.payload["n"] == 2:
            raise gapless.DeadLetter("no")
        gapless.publish(conn, "mails", {"to": event.key, "n": event.payload["n"]}, key=event.key)


@pytest.fixture
def shop(dsn: str) -> str:
    testing.install(dsn, topics={"orders": 2, "payments": 2, "mails": 1})
    return dsn


def module() -> types.ModuleType:
    made = types.ModuleType("app")
    vars(made).update(store=store, till=till, again=till, other=3)
    return made


@pytest.mark.long
@pytest.mark.parametrize(
    "app",
    [
        pytest.param([store, till], id="list", marks=pytest.mark.long),
        pytest.param(module(), id="module"),
    ],
)
def test_drain_goes_round_until_all_chains_have_ended(
    shop: str, conn: Connection, app: Any
) -> None:
    for n in (1, 2, 3):
        gapless.publish(conn, "orders", {"n": n}, key=str(n))
    done = testing.drain(shop, app)
    assert (done.events, done.units, done.dead) == (6, 6, 1)
    found = testing.published(conn, "mails")
    assert sorted(event.payload["n"] for event in found) == [1, 3]
    assert testing.drain(shop, app).units == 0


@pytest.mark.long
def test_a_chain_without_an_end_is_told(
    shop: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.testing.drained.ROUNDS_MAX", 3)

    @handler(topic="orders", group="g")
    def again(unit: Unit, conn: Connection[Any]) -> None:
        gapless.publish(conn, "orders", 1)

    gapless.publish(conn, "orders", 1)
    with pytest.raises(UsageError, match="still busy after 3 rounds"):
        testing.drain(shop, [again])


def test_what_cannot_be_drained_is_told(shop: str) -> None:
    with pytest.raises(UsageError, match="no handler there"):
        testing.drain(shop, [])
    with pytest.raises(UsageError, match="only with one handler"):
        testing.drain(shop, [till], group="x")


class TestPublished:
    def test_it_sees_what_is_not_committed_and_has_no_offset(
        self, shop: str, conn: Connection
    ) -> None:
        event = gapless.NewEvent(
            payload={"a": [1]}, key="k", event_type="t", headers={"h": 1}, user_id="u",
            transaction_id=uuid4(),
        )  # fmt: skip
        with conn.transaction():
            gapless.publish(conn, "orders", event)
            assert testing.published(conn, "orders") == [event]
            assert testing.published(shop, "orders") == []
        assert testing.published(shop, "orders") == [event]

    def test_what_it_cannot_read_from_is_told(self, shop: str, conn: Connection) -> None:
        with pytest.raises(UsageError, match="is not a connection"):
            testing.published(3, "orders")
        with pytest.raises(Exception, match="nowhere"):
            testing.published(conn, "nowhere")

    def test_assert_published(self, shop: str, conn: Connection) -> None:
        gapless.publish(conn, "orders", {"n": 1, "more": {"x": 1, "y": 2}}, key="a")
        gapless.publish(conn, "orders", {"n": 2}, key="a", headers={"h": 1, "i": 2})
        (found,) = testing.assert_published(conn, "orders", {"more": {"x": 1}})
        assert found.payload["n"] == 1
        testing.assert_published(conn, "orders", key="a", times=2)
        testing.assert_published(conn, "orders", {"n": 2}, headers={"h": 1})
        testing.assert_published(conn, "orders", {"n": 3}, times=0)
        with pytest.raises(AssertionError) as told:
            testing.assert_published(conn, "orders", {"n": 3}, key="a")
        assert str(told.value) == (
            "0 events of orders instead of 1 have {'payload': {'n': 3}, 'key': 'a'}; "
            "published were 2:\n"
            '  {"n":1,"more":{"x":1,"y":2}} key=\'a\'\n'
            "  {\"n\":2} key='a' headers={'h': 1, 'i': 2}"
        )


def test_a_unit_made_by_hand_is_as_one_of_the_log(shop: str, conn: Connection) -> None:
    id_ = uuid4()
    event = gapless.NewEvent(payload={"n": 1}, key="k", headers={"h": 1}, transaction_id=id_)
    made = testing.make_unit(
        [event, event], topic="orders", partition=1, first_offset=7, group="g", attempt=3
    )
    assert (len(made), made.first_offset, made.last_offset, made.attempt) == (2, 7, 8, 3)
    assert (made.group, made.topic, made.partition) == ("g", "orders", 1)
    assert (made.transaction_id, made.idempotency_key) == (id_, "g/orders/1@7")
    assert [(each.payload, each.key, each.headers) for each in made] == [
        ({"n": 1}, "k", {"h": 1})
    ] * 2
    assert next(iter(made)).created_ts == datetime(2000, 1, 1, tzinfo=UTC)
    till(made, conn)
    testing.assert_published(conn, "payments", {"n": 1}, key="k", times=2)
    with pytest.raises(ValueError, match="one event at least"):
        testing.make_unit([])


@given(strategies.new_events(), strategies.texts())
@settings(deadline=None, max_examples=50)
def test_strategies_make_what_can_be_published(event: gapless.NewEvent, text: str) -> None:
    (read,) = testing.make_unit([event])
    assert read.payload == event.payload
    assert (read.key, read.headers) == (event.key, event.headers or {})
    text.encode()


TESTS = """
import gapless, pytest, sys
from gapless import testing

@pytest.fixture(autouse=True, scope="session")
def light():
    assert "psycopg" not in sys.modules or LOADED

LOADED = "psycopg" in sys.modules

@pytest.mark.gapless(topics={"orders": 2})
@pytest.mark.parametrize("n", [1, 2])
def test_a_database_of_its_own(gapless_db, gapless_conn, n):
    assert testing.published(gapless_db, "orders") == []
    gapless.publish(gapless_conn, "orders", n)
    assert [event.payload for event in testing.published(gapless_conn, "orders")] == [n]

def test_without_topics(gapless_conn):
    assert gapless_conn.execute("select count(*) from gapless.topic").fetchone() == (0,)
"""


def in_pytest(folder: Path, *words: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--strict-markers", *words],
        cwd=folder,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def databases(server_dsn: str) -> set[str]:
    with gapless.connect(server_dsn) as conn:
        return {row[0] for row in conn.execute("select datname from pg_database").fetchall()}


@pytest.mark.long
@pytest.mark.slow
def test_the_plugin_is_found_and_leaves_nothing(tmp_path: Path, server_dsn: str) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    before = databases(server_dsn)
    assert "3 passed" in in_pytest(tmp_path, GAPLESS_TEST_DSN=server_dsn)
    assert databases(server_dsn) <= before


@pytest.mark.long
@pytest.mark.slow
def test_the_plugin_starts_a_server_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    said = in_pytest(tmp_path, GAPLESS_TEST_DSN="")
    assert "3 passed" in said, said


def test_the_plugin_costs_nobody_time() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import gapless.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "['gapless', 'gapless.feature', 'gapless.lazily', 'gapless.pytest_plugin']"
    )
