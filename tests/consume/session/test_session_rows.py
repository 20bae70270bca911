"""The session of a step in a real database: what commits, what does not, and how it is left, whatever the handler did."""

from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from gapless.consume.session import (
    ChangedError,
    TransactionBrokenError,
    UnattributedError,
    allow_commit,
    commit_and_begin,
    explain,
    is_of_settings,
    require_usable,
    restore_settings,
    run,
    run_at_commit,
    run_before,
    settings_before,
    transaction,
)
from support.step_session import StepSession

LEFT_OPEN = "the handler left a transaction block open on the connection it was given"
REPLACED = "the handler replaced the transaction it was given: it must not COMMIT or ROLLBACK"
NOT_CLAIMED = {"claim_xid": "0", "units": 1, "settings": None}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("autocommit", [True, False])
def test_what_a_block_does_commits_at_its_end(
    session: StepSession, autocommit: bool, kept: bool
) -> None:
    """READ COMMITTED; afterwards the session is as it was."""
    session.conn.execute("set default_transaction_isolation = 'serializable'")
    session.conn.autocommit = autocommit
    for number in (1, 2):
        with transaction(session.conn, kept=kept):
            assert run(session.conn, "settings")[0][0] == settings_before(session.conn)
            session.write(number)
            assert session.conn.execute("show transaction_isolation").fetchone() == (
                "read committed",
            )
            assert session.effects == list(range(1, number))
        assert session.is_idle
        assert session.conn.autocommit is autocommit
        assert session.effects == list(range(1, number + 1))


@pytest.mark.parametrize("autocommit", [True, False])
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), psycopg.Rollback()])
def test_what_raises_leaves_nothing(
    session: StepSession, error: BaseException, autocommit: bool
) -> None:
    session.conn.autocommit = autocommit
    with pytest.raises(type(error)), transaction(session.conn):
        run(session.conn, "settings")
        session.write(1)
        run_at_commit(session.conn, "finish_units", NOT_CLAIMED)
        raise error
    assert (session.effects, session.is_idle, session.conn.autocommit) == ([], True, autocommit)
    with transaction(session.conn):
        assert run(session.conn, "settings")[0][0] == settings_before(session.conn)
        session.write(2)
    assert session.effects == [2]


def test_a_block_that_was_left_open_ends_the_session(session: StepSession) -> None:
    with pytest.raises(psycopg.OperationalError, match=LEFT_OPEN), transaction(session.conn):
        session.write(1)
        block = session.conn.transaction()
        block.__enter__()
    assert (session.effects, session.conn.closed) == ([], True)
    with (
        pytest.raises(psycopg.OperationalError, match="the connection is closed"),
        transaction(session.conn),
    ):
        raise AssertionError("it is not begun")


def xid(session: StepSession) -> str:
    row = session.conn.execute("select pg_current_xact_id()::text").fetchone()
    assert row is not None
    return str(row[0])


def test_only_the_transaction_that_claimed_commits(session: StepSession) -> None:
    with transaction(session.conn):
        allow_commit(session.conn, xid(session), 1)
        session.write(1)
    assert session.effects == [1]
    with pytest.raises(TransactionBrokenError, match=REPLACED) as caught, transaction(session.conn):
        claimed = xid(session)
        session.conn.execute("rollback")
        session.write(2)
        allow_commit(session.conn, claimed, 1)
    assert type(caught.value) is TransactionBrokenError
    assert (session.effects, session.is_idle) == ([1], True)


@pytest.mark.parametrize(("calls", "kind"), [(1, None), (2, UnattributedError)])
def test_what_was_published_for_nobody_is_not_committed(
    session: StepSession, calls: int, kind: Any
) -> None:
    """Of one call it is known, once it was told."""

    def publish() -> None:
        with transaction(session.conn):
            session.write(1)
            session.conn.execute(
                "select set_config('gapless.chain', %s, true)", ["untold" if kind else "open"]
            )
            allow_commit(session.conn, xid(session), calls)

    if kind is None:
        publish()
    else:
        with pytest.raises(kind):
            publish()
    assert session.effects == ([] if kind else [1])


def test_a_session_that_was_changed_does_not_commit(session: StepSession) -> None:
    with pytest.raises(ChangedError), transaction(session.conn):
        session.write(1)
        session.conn.execute("set statement_timeout = 12345")
        allow_commit(session.conn, xid(session), 1)
    assert (session.effects, session.is_idle) == ([], True)


def test_one_ends_and_the_next_begins_in_one_round_trip(session: StepSession) -> None:
    """The first is committed, whatever becomes of the second; that is said once it is so."""
    said: list[str] = []
    with pytest.raises(ValueError, match="no"), transaction(session.conn):
        session.write(1)
        first = xid(session)
        commit_and_begin(session.conn, lambda: said.append("committed"))
        assert (said, session.effects) == ([], [])
        run(session.conn, "settings")
        assert (said, session.effects) == (["committed"], [1])
        assert session.conn.info.transaction_status == TransactionStatus.INTRANS
        session.write(2)
        assert xid(session) != first
        raise ValueError("no")
    assert session.effects == [1]
    with pytest.raises(psycopg.OperationalError, match=LEFT_OPEN), transaction(session.conn):
        block = session.conn.transaction()
        block.__enter__()
        try:
            commit_and_begin(session.conn, lambda: said.append("never"))
        finally:
            assert session.conn.closed
    assert (session.conn.closed, said) == (True, ["committed"])


def test_what_is_to_run_before_runs_before(session: StepSession) -> None:
    told = {"cause": "g/t/0@1", "correlation": None}
    with transaction(session.conn):
        run_before(session.conn, "tell_cause", told)
        assert run(session.conn, "settings")
        cause = session.conn.execute("select current_setting('gapless.cause', true)").fetchone()
        assert cause == ("g/t/0@1",)


STATES: list[tuple[str, type[Exception]]] = [
    ("GL002", TransactionBrokenError), ("GL004", UnattributedError), ("GL005", ChangedError), ("GL001", psycopg.Error),
    ("GL003", psycopg.Error), ("57014", psycopg.errors.QueryCanceled), ("23505", psycopg.errors.UniqueViolation),
]  # fmt: skip


@pytest.mark.parametrize(("state", "kind"), STATES)
def test_what_our_own_checks_say(session: StepSession, state: str, kind: type[Exception]) -> None:
    raises = (
        f"do $$ begin raise exception 'said' using errcode = '{state}', detail = 'more'; end $$"
    )
    with pytest.raises(psycopg.Error) as caught:
        session.conn.execute(raises.encode())
    if issubclass(kind, psycopg.Error):
        explain(caught.value)
        return
    with pytest.raises(kind) as told:
        explain(caught.value)
    assert (type(told.value), str(told.value), told.value.__cause__) == (kind, "said", caught.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.QueryCanceled(), True), (psycopg.errors.LockNotAvailable(), True),
        (psycopg.errors.InsufficientPrivilege(), True), (ChangedError(), True), (psycopg.errors.UniqueViolation(), False),
        (psycopg.OperationalError(), False), (UnattributedError(), False), (TransactionBrokenError(), False),
        (ValueError(), False),
    ],
)  # fmt: skip
def test_what_may_be_so_because_of_a_handler_s_settings(
    error: BaseException, expected: bool
) -> None:
    assert is_of_settings(error) is expected


def test_settings_are_put_back(session: StepSession) -> None:
    shows = "select current_setting('work_mem'), current_setting('statement_timeout'), current_user"
    session.conn.execute("set work_mem = '5MB'")
    restore_settings(session.conn)
    assert settings_before(session.conn) is None
    with transaction(session.conn):
        before = session.conn.execute(shows).fetchone()
    known = settings_before(session.conn)
    assert known
    session.conn.execute(
        "set work_mem = '7MB'; set statement_timeout = '100s'; set role gapless_operator"
    )
    restore_settings(session.conn)
    assert session.conn.execute(shows).fetchone() == before
    assert settings_before(session.conn) == known


def test_a_session_that_can_be_used(session: StepSession) -> None:
    require_usable(session.conn)
    session.conn.execute("begin")
    require_usable(session.conn, ValueError("no"))
    assert not session.conn.closed


@pytest.mark.parametrize("how", ["closed", "lost", "lost, and it says so", "busy", "pipeline"])
def test_a_session_that_cannot_be_used(session: StepSession, how: str) -> None:
    error: Exception = ValueError("no")
    why = {
        "closed": "the handler closed the connection it was given",
        "busy": "the handler left a command running on the connection it was given",
        "pipeline": "the handler left a command running on the connection it was given",
        "lost": "the connection was lost while the handler ran",
    }
    if how == "closed":
        session.conn.close()
    elif how == "busy":
        session.conn.pgconn.send_query(b"select pg_sleep(9)")
    elif how == "pipeline":
        session.conn.pgconn.enter_pipeline_mode()
    else:
        session.looker.execute(
            "select pg_terminate_backend(%s, 5000)", [session.conn.info.backend_pid]
        )
        with pytest.raises(psycopg.OperationalError) as lost:
            session.conn.execute("select 1")
        error = lost.value if "says" in how else error
    with pytest.raises(psycopg.OperationalError) as caught:
        require_usable(session.conn, error)
    assert session.conn.closed
    if "says" in how:
        assert caught.value is error
    else:
        assert (str(caught.value), caught.value.__cause__) == (why[how], error)


def test_what_is_to_run_at_commit_decides_about_it(session: StepSession) -> None:
    with pytest.raises(TransactionBrokenError, match=REPLACED), transaction(session.conn):
        session.write(1)
        run_at_commit(session.conn, "finish_units", NOT_CLAIMED)
    assert session.effects == []
