"""The session of a step in a real database: what commits, what does not, and how it is left, whatever the handler did."""

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from gapless.consume.session import (
    ChangedError,
    TransactionBrokenError,
    UnattributedError,
    commit_and_begin,
    explain,
    is_of_settings,
    restore_settings,
    run,
    run_before,
    settings_before,
    transaction,
)
from support.step_session import StepSession

LEFT_OPEN = "the handler left a transaction block open on the connection it was given"


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


def xid(session: StepSession) -> str:
    row = session.conn.execute("select pg_current_xact_id()::text").fetchone()
    assert row is not None
    return str(row[0])


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
