"""The command `gapless`: find the command's module, run it, turn errors into one line.

Exit codes: 0 done; 1 it failed at run time; 2 the input is wrong or the database refuses; 3 the
database cannot be reached now; 130 Ctrl-C; 141 the reader of the output is gone. The full list is
in docs/reference/exit-codes.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import IO

from gapless.cli.commands import COMMANDS, help_parser, parser_of
from gapless.cli.parser import GLOBALS
from gapless.cli.screen import remark
from gapless.cli.title import hide_passwords
from gapless.errors import GaplessError, UsageError

_INTERRUPTED = 130
_BROKEN_PIPE = 141
_TAKES_A_VALUE = ("--dsn", "--schema", "--config", "--values")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. Never raises."""
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        hide_passwords(words)
    debug = "--debug" in words or bool(os.environ.get("GAPLESS_DEBUG"))
    # Characters that the terminal's encoding lacks are shown as escapes, and are no error.
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
    if name is None:
        help_parser().parse_args(words)  # --help and --version end here
        raise UsageError("which command? gapless --help lists them")
    if name not in COMMANDS:
        raise UsageError(f"there is no command {name!r}{_meant(name)}; gapless --help lists them")
    rest: list[str] = []
    if "--" in words and getattr(import_module(COMMANDS[name].module), "TAKES_THE_REST", False):
        words, rest = words[: words.index("--")], words[words.index("--") + 1 :]
    args = parser_of(name).parse_args(words, argparse.Namespace(**GLOBALS, rest=rest))
    code: int = args.act(args)
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


def _meant(name: str) -> str:
    from gapless.settings.stranger import closest, hint  # noqa: PLC0415 - only for this message

    return hint(closest(name, COMMANDS))


def _fail(error: BaseException, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED
    text, code = _explained(error)
    try:
        remark(text)
    except BrokenPipeError:
        _quietly(sys.stdout)
        _quietly(sys.stderr)
    return code


def _explained(error: BaseException) -> tuple[str, int]:
    if isinstance(error, GaplessError):  # an error of our own is explained without psycopg
        return " ".join(str(error).split()), error.exit_code
    from gapless.cli.context import where  # noqa: PLC0415 - needs psycopg
    from gapless.ops.remedy import explain  # noqa: PLC0415 - as above

    found = explain(error, where())
    return found.text, found.exit_code


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _quietly(sys.stdout)
    return code


def _quietly(stream: IO[str]) -> int:
    """Discard further output to a reader that is gone; Python would complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    return _BROKEN_PIPE
