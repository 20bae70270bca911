"""Secrets by reference: `env:NAME`, or `file:/path`, read where the driver runs."""

from __future__ import annotations

import os
from pathlib import Path

from gapless.errors import UsageError


def read_secret(option: str, reference: str) -> str:
    """Return the text that a reference names. Raises UsageError, which shows nothing of a secret.

    option: the name under which the reference was given.
    """
    kind, _, where = reference.partition(":")
    if kind == "env" and where:
        found = os.environ.get(where)
        if not found:
            raise UsageError(f"{option}: the variable {where} is not set where the driver runs")
        return found
    if kind == "file" and where:
        try:
            return Path(where).read_text().strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UsageError(f"{option}: {reference}: {why}") from None
    raise UsageError(
        f"{option} names where its value is, as env:NAME or file:/path: a DSN in a file of "
        "pipelines would show its password"
    )
