"""The PostgreSQL that gapless starts where no DSN is configured: look at it, start it, stop it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

from gapless.features.server import control
from gapless.features.server.server import stop

__all__ = ["ServerInfo", "show_server", "start_server", "stop_server"]

OWN = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """An embedded server. version: the major version of the PostgreSQL that made its data, or None.

    running: whether it runs. stays: it runs until it is stopped, not only as long as it has users.
    folder, log: of its data, and its log file. url: its address while it runs, for other programs
    too.
    """

    name: str
    running: bool
    stays: bool
    version: int | None
    folder: str
    log: str
    url: str | None

    def __str__(self) -> str:
        how_long = "until gapless server stop" if self.stays else "as long as it is used"
        holds = f"PostgreSQL {self.version}" if self.version else "nothing yet"
        lines = [
            f"server   {self.name}: {f'runs, {how_long}' if self.running else 'does not run'}",
            f"data     {Path(self.folder) / 'data'} ({holds})",
            f"log      {self.log}",
        ]
        return "\n".join(lines + ([] if self.url is None else [f"url      {self.url}"]))


def show_server(name: str = OWN) -> ServerInfo:
    """Return the state of a server; starts nothing. Raises UsageError for a bad name."""
    return _info(name, control.standing_of(name))


def start_server(name: str = OWN) -> ServerInfo:
    """Start a server unless it runs, and let it run until it is stopped, with or without users.

    Raises UsageError for a bad name, ConnectError when no PostgreSQL can be started.
    """
    return _info(name, control.start(name))


def stop_server(name: str = OWN) -> bool:
    """Stop a server, even if it has users; the data stay. Return False when it did not run.

    Raises UsageError for a bad name.
    """
    return stop(name=name)


def url_of(dsn: str) -> str:
    """Write a connection string as a URI: one word, for shells and other languages."""
    known = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    user, dbname = quote(known.pop("user", "")), quote(known.pop("dbname", ""))
    rest = "&".join(f"{name}={quote(value, safe='')}" for name, value in known.items())
    return f"postgresql://{user}@/{dbname}?{rest}"


def _info(name: str, found: control.ServerStanding) -> ServerInfo:
    return ServerInfo(
        name=name,
        running=found.dsn is not None,
        stays=found.stays,
        version=found.version,
        folder=str(found.folder),
        log=str(found.log),
        url=None if found.dsn is None else url_of(found.dsn),
    )
