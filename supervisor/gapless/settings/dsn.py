"""Whether the database was configured, by a DSN or by libpq's own environment.

gapless never parses a DSN: an empty one already makes libpq read PGHOST, PGSERVICE, the service
file, the password file and the rest. This module only tells "connect with an empty DSN" from
"nothing was configured: start the embedded server".
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from gapless.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The variables that choose a server, a database or a role. PGPASSWORD, PGPASSFILE, PGSSLMODE,
# PGSERVICEFILE, PGAPPNAME … only refine a choice made elsewhere and are often left over.
# DATABASE_URL is not libpq's and usually belongs to another program on the machine.
_CHOOSES_A_SERVER = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE")


def dsn_is_configured(environ: Mapping[str, str], dsn: str | None = None) -> bool:
    """Tell whether `dsn` or libpq's environment names a server; an empty value names none."""
    return bool(dsn) or any(environ.get(name) for name in _CHOOSES_A_SERVER)


def is_reference(text: str) -> bool:
    """Tell whether a text refers to a DSN (`env:NAME`, `file:/path`) instead of being one."""
    return text.startswith(("env:", "file:"))


def resolve_dsn(text: str) -> str:
    """Return the DSN that `env:NAME` or `file:/path` refers to; any other text unchanged.

    It is looked up here, in this process: a command line, a plan and a log show the reference only.
    Raises ConfigError, which shows no value, when there is none.
    """
    if not is_reference(text):
        return text
    kind, _, name = text.partition(":")
    if kind == "env":
        found = os.environ.get(name, "")
        if not found.strip():
            raise ConfigError(f"{text}: the variable {name} is not set here")
        return found.strip()
    path = Path(name.removeprefix("//"))
    if not path.is_absolute():
        raise ConfigError(f"{text}: write the whole path, file:/run/secrets/gapless-dsn")
    try:
        found = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"{text} cannot be read: {why}") from None
    if not found:
        raise ConfigError(f"{text}: the file is empty")
    return found
