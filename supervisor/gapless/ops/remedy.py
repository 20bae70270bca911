"""Explain any error in one line, with the remedy, and whether the input was to blame."""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg
from psycopg import errors

from gapless.db.schema import init_command, schema, schema_words
from gapless.errors import GaplessError

__all__ = ["Explained", "explain"]

_BAD_INPUT = 2
_FAILED = 1
_AWAY = 3
_PRODUCER_MAY = re.compile(
    r"(outbox_message_t|outbox_message_id_seq|publish|topic_id|transaction_uuid|partition_of)\b"
)
_OPERATOR_MAY = re.compile(
    r"function (pause|resume|seek|skip_hole|drop_group|(redrive|discard|mend)_letter)\b"
)


@dataclass(frozen=True, slots=True)
class Explained:
    """The cause of an error, with the remedy if there is one, and the exit code of a command."""

    text: str
    exit_code: int


def explain(error: BaseException, who: str = "this session") -> Explained:
    """Explain an error in one line: gapless's own, the database's, or any other.

    who: the role and database of the session, if a right is missing: `role "x" in database "y"`.
    """
    if isinstance(error, GaplessError):
        return Explained(" ".join(str(error).split()), error.exit_code)
    text, exit_code = _database(error, who) if isinstance(error, psycopg.Error) else _other(error)
    return Explained(" ".join(text.split()), exit_code)


def _other(error: BaseException) -> tuple[str, int]:
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename is not None else ""
        return f"{file}{error.strerror}", _BAD_INPUT
    if isinstance(error, ImportError):
        return f"this installation is not complete: {error}", _FAILED
    if isinstance(error, MemoryError):
        return "out of memory", _FAILED
    line = (
        f"unexpected {type(error).__name__}: {error} (this is a mistake in gapless: "
        "the same command with --debug shows where)"
    )
    return line, _FAILED


def _database(error: psycopg.Error, who: str) -> tuple[str, int]:
    primary = error.diag.message_primary
    if isinstance(error, errors.InsufficientPrivilege):
        return f"{who}: {_privilege(primary or str(error))}", _BAD_INPUT
    if isinstance(
        error, errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedFunction
    ):
        return (
            f"{who}: {primary}: the {schema_words()} is not complete: run {init_command()}",
            _BAD_INPUT,
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):  # a primary's sessions write
        return "this writes, and the server is a read-only standby: connect to the primary", _AWAY
    if isinstance(error, errors.AdminShutdown | errors.CrashShutdown) or error.sqlstate is None:
        text = primary or str(error) or type(error).__name__
        return f"the connection to PostgreSQL was lost: {text}", _FAILED
    if (error.sqlstate or "").startswith("GL"):  # ours: its message is complete
        return primary or str(error), _BAD_INPUT
    detail = f" ({error.diag.message_detail})" if error.diag.message_detail else ""
    bad_input = (error.sqlstate or "")[:2] in {"22", "23"}
    return f"{primary or error}{detail} [{error.sqlstate}]", _BAD_INPUT if bad_input else _FAILED


def _privilege(complaint: str) -> str:
    """Name the role that would help: the complaint names the object of the missing right."""
    if _OPERATOR_MAY.search(complaint):
        remedy = "grant it gapless_operator"
    elif _PRODUCER_MAY.search(complaint):
        remedy = "grant it gapless_producer"
    elif f"schema {schema()}" in complaint:
        remedy = "grant it gapless_producer to publish, gapless_consumer for the rest"
    else:
        remedy = "grant it gapless_consumer"
    return f"{complaint}: {remedy}"
