"""Rejections by the database's functions (GL…), as errors with one line and the SQLSTATE."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from gapless.errors import RefusedError


@contextmanager
def refused() -> Iterator[None]:
    """Turn an error that a function of gapless raises into a RefusedError with its text."""
    try:
        yield
    except psycopg.Error as error:
        if not (error.sqlstate or "").startswith("GL"):
            raise
        text = error.diag.message_primary or str(error)
        raise RefusedError(text, sqlstate=error.sqlstate or "") from error
