"""The command `gapless`: find the command's module, run it, turn errors into one line.

Exit codes: 0 done; 1 it failed at run time; 2 the input is wrong or the database refuses; 3 it
cannot be reached now; 130 Ctrl-C; 141 whoever read the output went away. See docs/exit-codes.md.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import IO

from gapless.cli.parser import GLOBALS, Parser
from gapless.cli.screen import note
from gapless.errors import GaplessError, UsageError

# One line a command, in the order of the help. A module is imported only for its own command, so
# one that is broken breaks nothing else.
COMMANDS = {
    "init": "gapless.cli.init",
    "run": "gapless.cli.run",
    "publish": "gapless.cli.publish",
    "tail": "gapless.cli.tail",
    "trace": "gapless.cli.trace",
    "topics": "gapless.cli.topics",
    "groups": "gapless.cli.groups",
    "status": "gapless.cli.status",
    "pause": "gapless.cli.pause",
    "resume": "gapless.cli.resume",
    "seek": "gapless.cli.seek",
    "skip": "gapless.cli.skip",
    "replay": "gapless.cli.replay.command",
    "dlq": "gapless.cli.dlq.command",
    "retention": "gapless.cli.retention",
    "pipeline": "gapless.cli.pipeline",
    "doctor": "gapless.cli.doctor",
    "server": "gapless.cli.server",
    "demo": "gapless.cli.demo.command",
    "uninstall": "gapless.cli.uninstall",
}

_DESCRIPTION = "An ordered, partitioned, transactional event log inside PostgreSQL."
_DATABASE_HELP = """\
The database is the first of these that is said: --dsn, GAPLESS_DSN, dsn: in the configuration,
libpq's own environment (PGHOST, PGSERVICE, ...). Without any, gapless starts a server of its own:
gapless server tells where its data are (GAPLESS_HOME chooses the folder, GAPLESS_PG_BINDIR the bin
folder of the PostgreSQL). Exit codes: docs/exit-codes.md.
"""
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_TAKES_A_VALUE = ("--dsn", "--config", "--values")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. Never raises."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words or bool(os.environ.get("GAPLESS_DEBUG"))
    # What the terminal's encoding cannot show is shown as an escape, and is not an error.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _run(words)
        sys.stdout.flush()
    except SystemExit as done:  # --help and --version
        return _flushed(done.code if isinstance(done.code, int) else 0)
    except BrokenPipeError:
        return _quietly(sys.stdout)
    except (KeyboardInterrupt, Exception) as error:  # noqa: BLE001 - the last line of defence
        return _fail(error, debug=debug)
    return code


def _run(words: list[str]) -> int:
    _refuse_undecodable(words)
    name = _command(words)
    parser = Parser(prog="gapless", description=_DESCRIPTION, epilog=_DATABASE_HELP)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser)
    if name is None:
        for each, summary in _summaries():
            commands.add_parser(each, help=summary)
        parser.parse_args(words)  # --help and --version end here
        raise UsageError("which command? gapless --help lists them")
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}{_meant(name)}; gapless --help lists them")
    module = importlib.import_module(COMMANDS[name])
    own = commands.add_parser(
        name,
        help=module.HELP,
        description=_sentence(module),
        epilog=getattr(module, "EXAMPLES", None),
    )
    module.add_arguments(own)
    rest: list[str] = []
    if getattr(module, "TAKES_THE_REST", False) and "--" in words:
        words, rest = words[: words.index("--")], words[words.index("--") + 1 :]
    args = parser.parse_args(words)
    args.rest = rest
    for option, default in GLOBALS.items():
        if not hasattr(args, option):
            setattr(args, option, default)
    code: int = module.main(args)
    return code


def _command(words: Sequence[str]) -> str | None:
    """Return the first word that is neither an option of every command nor the value of one."""
    rest = iter(words)
    for word in rest:
        if word in _TAKES_A_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None


def _refuse_undecodable(words: Sequence[str]) -> None:
    for number, word in enumerate(words, start=1):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"argument {number} is not valid UTF-8: {word!r}") from None


def _summaries() -> Iterator[tuple[str, str]]:
    for name, where in COMMANDS.items():
        try:
            yield name, importlib.import_module(where).HELP
        except Exception as error:  # noqa: BLE001 - the help must come, whatever one module does
            yield name, f"(cannot be loaded: {error})"


def _sentence(module: ModuleType) -> str:
    summary: str = module.HELP
    return f"{summary[0].upper()}{summary[1:]}."


def _meant(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only for this message

    close = get_close_matches(name, COMMANDS, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _fail(error: BaseException, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    if isinstance(error, GaplessError):
        line, code = str(error), error.exit_code
    else:
        from gapless.cli.explain import explain  # noqa: PLC0415 - needs psycopg

        line, code = explain(error)
    try:
        note(" ".join(line.split()))
    except BrokenPipeError:
        _quietly(sys.stdout)
        _quietly(sys.stderr)
    return code


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _quietly(sys.stdout)
    return code


def _quietly(stream: IO[str]) -> int:
    """Let nothing more be written to a reader that is gone; Python would complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return _BROKEN_PIPE
