"""Whether the database was configured, by a DSN or by libpq's own environment.

gapless never parses a DSN: an empty one already makes libpq read PGHOST, PGSERVICE, the service
file, the password file and the rest. This module only tells "connect with an empty DSN" from
"nothing was configured: start the embedded server".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# The variables that choose a server, a database or a role. PGPASSWORD, PGPASSFILE, PGSSLMODE,
# PGSERVICEFILE, PGAPPNAME … only refine a choice made elsewhere and are often left over.
# DATABASE_URL is not libpq's and usually belongs to another program on the machine.
_CHOOSES_A_SERVER = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE")


def dsn_is_configured(environ: Mapping[str, str], dsn: str | None = None) -> bool:
    """Tell whether `dsn` or libpq's environment names a server; an empty value names none."""
    return bool(dsn) or any(environ.get(name) for name in _CHOOSES_A_SERVER)
