"""A limit of the database's is told as what it is, however deep it lies."""

import psycopg
import pytest
from psycopg import errors

from gapless.db.connect import end_of, why_of
from gapless.errors import UnreadyError

TOLD = {
    errors.DiskFull: "disk is full: make room",
    errors.OutOfMemory: "out of memory",
    errors.TooManyConnections: "takes no more connections",
    errors.IdleInTransactionSessionTimeout: "idle_in_transaction_session_timeout ended the session",
    errors.IdleSessionTimeout: "idle_session_timeout ended the session",
}


@pytest.mark.parametrize("kind", TOLD)
def test_each_has_its_own_sentence(kind: type[psycopg.Error]) -> None:
    error = kind("what the server said")
    lost = psycopg.OperationalError("lost")
    lost.__cause__ = error
    for text in (why_of(error), end_of(error), end_of(lost), str(UnreadyError("g/t/0@1", error))):
        assert TOLD[kind] in text
        assert text.count(f"(SQLSTATE {error.sqlstate}: what the server said)") == 1
        assert "connection lost" not in text
        assert "as the handler expects" not in text


def test_what_is_no_limit_is_told_as_before() -> None:
    assert end_of(psycopg.OperationalError("gone")) == "connection lost: gone"
    assert (
        why_of(errors.InsufficientPrivilege("no")) == "no: grant this role gapless_consumer again"
    )
    assert "42P01, no table: grant or create it" in str(
        UnreadyError("g/t/0@1", errors.UndefinedTable("no table"))
    )
