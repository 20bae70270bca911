"""What a COMMIT of claimed events needs: finish_units(), refuse_early_commit(), constraints, settings."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.claims import TOKEN, owned
from support.twins import SEEKS_NO_MORE, Twins

__all__ = ["owned"]

NOW = "set constraints all immediate"
EARLY = "a gapless handler must not COMMIT: its effects commit together with the offset"
XID = "select pg_current_xact_id()::text"
SET = "select set_config(%s, %s, true)"
HELD = (
    "create table public.held (n int, constraint late unique (n) deferrable initially deferred);"
    "create table public.prompt (n int, constraint soon unique (n) deferrable initially immediate)"
)
TWICE = "insert into public.{} values (1), (1)"


@pytest.fixture
def fresh(twins: Twins, module_dsn: str) -> Iterator[Connection[Any]]:
    """A session that knows no mark of ours yet, in autocommit."""
    assert twins
    with connect(module_dsn, role="test") as conn:
        yield conn


def marks(conn: Connection[Any], *names: str) -> list[str | None]:
    values = "select array(select current_setting('gapless.' || n, true) from unnest(%s::text[]) n)"
    row = conn.execute(values, [list(names)]).fetchone()
    assert row is not None
    return [each or None for each in row[0]]


# What is written of the place, marks that name this transaction (or another), and whether it may commit.
MOVES: dict[str, tuple[str, dict[str, bool], bool]] = {
    "forward": ("next_offset = 2", {}, False),
    "to where it is": ("next_offset = next_offset", {}, True),
    "nobody's place": ("next_offset = 2, token = null", {}, True),
    "finished": ("next_offset = 2", {"finished": True}, True),
    "finished another one": ("next_offset = 2", {"finished": False}, False),
    "a seek": ("next_offset = 2", {"seeking": True}, True),
    "a seek of another one": ("next_offset = 2", {"seeking": False}, False),
}


@pytest.mark.parametrize("name", MOVES)
def test_who_moves_an_offset_says_why(owned: Twins, name: str) -> None:
    written, said, may = MOVES[name]
    owned.conn.execute(SEEKS_NO_MORE)
    owned.conn.execute(f"update gapless.consumer_offsets set {written} where {owned.here()}")
    for mark, is_this in said.items():
        owned.conn.execute(SET, [f"gapless.{mark}", owned.value(XID) if is_this else "1"])
    if may:
        owned.conn.execute(NOW)
    else:
        assert owned.refused(NOW) == ("GL001", EARLY)


def test_who_says_nothing_at_all_is_refused(fresh: Connection[Any]) -> None:
    """Its session has never heard of marks."""
    move = "update gapless.consumer_offsets set next_offset = 2, token = %s"
    with fresh.transaction(force_rollback=True):
        fresh.execute(move, [TOKEN])
        with pytest.raises(psycopg.Error, match=EARLY):
            fresh.execute(NOW)


@pytest.mark.few(9)
@pytest.mark.parametrize(
    ("units", "cause"), [(0, "it"), (1, "it"), (2, None)], ids=["none", "one", "two"]
)
@pytest.mark.parametrize("chain", ["open", "told", None])
def test_units_are_finished(
    fresh: Connection[Any], units: int, cause: str | None, chain: str | None
) -> None:
    """From here to the COMMIT what is published comes of the one unit, or of none that is known."""
    with fresh.transaction():
        if chain:
            fresh.execute(SET, ["gapless.chain", chain])
        fresh.execute(SET, ["gapless.cause", "it"])
        xid = fresh.execute(XID).fetchall()[0][0]
        assert fresh.execute("select gapless.finish_units('1', %s)", [units]).fetchall() == [
            (False,)
        ]
        row = fresh.execute("select gapless.finish_units(%s, %s)", [xid, units]).fetchone()
        assert row == (True,)
        assert marks(fresh, "finished", "chain", "cause") == [xid, "closed", cause]
    assert marks(fresh, "finished", "chain", "cause") == [None] * 3


@pytest.mark.parametrize("units", [1, 2])
def test_what_nobody_told_is_not_finished(twins: Twins, units: int) -> None:
    twins.conn.execute(SET, ["gapless.chain", "untold"])
    state, _ = twins.refused("select gapless.finish_units(pg_current_xact_id()::text, %s)", [units])
    assert state == "GL004"


def test_what_is_not_finished_is_not_committed(twins: Twins) -> None:
    said = "the handler replaced the transaction it was given: it must not COMMIT or ROLLBACK"
    assert twins.refused("select gapless.require_finish(false)") == ("GL002", said)
    twins.conn.execute("select gapless.require_finish(true)")


def test_settings_that_a_handler_changed(twins: Twins) -> None:
    before = twins.value("select gapless.settings_in_force()")
    require = "select gapless.require_settings(%s)"
    assert twins.value(require, before) is None
    twins.conn.execute("set local time zone 'Asia/Tokyo'")
    said = "a handler changed settings of the session it was given"
    assert twins.refused(require, [before]) == ("GL005", said)
    assert twins.value(require, None) is None, "nobody knows what they were"


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_session_is_put_back_for_good(fresh: Connection[Any], *, is_marked: bool) -> None:
    """To what is given; our marks stay up to the end of the transaction."""
    names = ("finished", "chain", "cause", "correlation")
    told = [f"our {name}" if is_marked else None for name in names]
    show = "select current_setting('work_mem'), current_setting('datestyle')"
    ((_, datestyle),) = fresh.execute(show).fetchall()
    with fresh.transaction():
        for name, value in zip(names, told, strict=True):
            if value:
                fresh.execute(SET, [f"gapless.{name}", value])
        fresh.execute("set work_mem = '7MB'")
        fresh.execute("set datestyle = 'German'")
        fresh.execute("select gapless.restore_settings('{work_mem}', '{5MB}')")
        assert marks(fresh, *names) == told
    assert fresh.execute(show).fetchall() == [("5MB", datestyle)]
    assert marks(fresh, *names) == [None] * 4


def test_what_is_deferred_is_checked_and_deferred_again(owned: Twins) -> None:
    """A claim that is not finished is in nobody's way meanwhile, and is refused as ever."""
    owned.conn.execute(HELD)
    owned.conn.execute(SEEKS_NO_MORE)
    for check in ("check", "apply"):
        owned.conn.execute(
            f"update gapless.consumer_offsets set next_offset = next_offset + 1 where {owned.here()}"
        )
        with owned.conn.transaction(force_rollback=True):
            owned.conn.execute(TWICE.format("held"))
            assert owned.refused(f"select gapless.{check}_constraints()")[0] == "23505"
        owned.conn.execute(f"select gapless.{check}_constraints()")
        assert marks(owned.conn, "finished") == [None]
        with owned.conn.transaction(force_rollback=True):
            owned.conn.execute(TWICE.format("held"))
            assert owned.refused(TWICE.format("prompt"))[0] == "23505"
    owned.conn.execute(
        f"update gapless.consumer_offsets set next_offset = next_offset + 1 where {owned.here()}"
    )
    assert owned.refused(NOW) == ("GL001", EARLY)


def test_nothing_is_left_of_a_check_behind_its_transaction(fresh: Connection[Any]) -> None:
    for check in ("check", "apply"):
        with fresh.transaction():
            fresh.execute(f"select gapless.{check}_constraints()")
        assert marks(fresh, "finished") == [None]


@pytest.mark.parametrize(
    ("payload", "condition", "answer"),
    [
        ('{"n": 1}', "$.n == $m", ""), ('{"n": 2}', "$.n == $m", None), ('{"x": 1}', "$.n == $m", None),
        ('{"x": 1}', "strict $.n == $m", None), ('{"n": [1]}', "$.n", None),
        ('{"n": "\\u0000"}', "$.n == $m",
         "the filter could not be asked: unsupported Unicode escape sequence"),
    ],
)  # fmt: skip
def test_whether_a_condition_holds(
    twins: Twins, payload: str, condition: str, answer: str | None
) -> None:
    """Not where it makes no sense; and what cannot be asked is said to be so."""
    ask = "select gapless.condition_error(%s, %s, '{\"m\": 1}')"
    assert twins.value(ask, payload, condition) == answer
