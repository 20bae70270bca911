"""Dead letters: put a failed unit aside with its error, whatever the error looks like (I9)."""

from __future__ import annotations

import traceback
from typing import Any

import psycopg
from psycopg import Connection

from gapless.consume.session import run
from gapless.consume.unit import Span
from gapless.keys import Partition, partition_params

EXCEPTION_CHARS_MAX = 16_000


def dead_letter(
    conn: Connection[Any],
    partition: Partition,
    span: Span,
    error: BaseException | str,
    attempts: int = 1,
) -> None:
    """Write all events of a unit to the dead letter queue, in the transaction that is open."""
    run(
        conn,
        "dead_letter",
        {
            **partition_params(partition),
            "first_offset": span.first_offset,
            "message_ids": list(span.ids),
            "exception": error if isinstance(error, str) else describe(error),
            "sqlstate": _sqlstate(error),
            "attempts": attempts,
        },
    )


def describe(error: BaseException) -> str:
    """Return the error with its traceback as text PostgreSQL can store.

    Survives NUL bytes, lone surrogates, megabytes of text, and exceptions whose str() raises.
    Bound: EXCEPTION_CHARS_MAX characters.
    """
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-20)
        text = "".join(lines)
    except BaseException as broken:  # noqa: BLE001 - the error's own code may raise anything
        text = f"{type(error).__name__} (its text could not be had: {type(broken).__name__})"
    # Break what cannot be stored before measuring: both ends tell most, the middle goes.
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00").strip()
    if len(text) > EXCEPTION_CHARS_MAX:
        half = EXCEPTION_CHARS_MAX // 2 - 50
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
    return text


def _sqlstate(error: BaseException | str) -> str | None:
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    return state if state is not None and len(state) == 5 and state.isalnum() else None
