"""Parse the command line: the options of every command, and errors in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from gapless.errors import UsageError
from gapless.ops.text import whole_seconds

Number = TypeVar("Number", int, float)
# Values before a command is chosen; the words of the command line replace them.
GLOBALS = {"dsn": None, "config": None, "values": None, "debug": False, "schema": None}
_EVERYWHERE = "options of every command"


class Parser(argparse.ArgumentParser):
    """A parser that knows the options of every command, wherever they stand.

    Commands and verbs have parsers of this class too, so `gapless --dsn X tail orders` and
    `gapless tail orders --dsn X` are the same. `default_verb` is the verb of `gapless groups`.
    Options may stand before, between and after the other words.
    """

    default_verb: str | None = None
    _verbs: argparse._SubParsersAction[Parser] | None = None
    half_flag: tuple[str, str, str] | None = None
    _is_mixing = False

    def format_help(self) -> str:
        """Write the help; the options of every command come last."""
        groups = self._action_groups
        groups.sort(key=lambda group: group.title == _EVERYWHERE)
        return super().format_help()

    def add_verbs(self, default: str) -> argparse._SubParsersAction[Parser]:
        """Give the command verbs, such as list, create and show."""
        self.default_verb = default
        self._verbs = self.add_subparsers(title="verbs", metavar="VERB", parser_class=Parser)
        return self._verbs

    def parse_known_args(  # type: ignore[override]  # the overloads of typeshed say the same
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, after inserting the default verb if none is given."""
        words = list(args or ())
        if self._subparsers is None and not self._is_mixing:
            return self._parse_mixed(words, namespace)
        verbs = self._verbs.choices if self._verbs else {}
        asks_help = any(word in {"-h", "--help"} for word in words)
        is_option = not words or words[0].startswith("-")
        if verbs and not is_option and words[0] not in verbs:
            self._refuse("verb", words[0], verbs)
        if verbs and is_option and not asks_help and not any(word in verbs for word in words):
            words.insert(0, str(self.default_verb))
        return super().parse_known_args(words, namespace)

    def _parse_mixed(
        self, words: list[str], namespace: argparse.Namespace | None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse options at any position: `publish orders --key AA 1` has an optional word."""
        self._is_mixing = True  # argparse calls parse_known_args again, for each kind of words
        try:
            words = words if self.half_flag is None else self._with_values(words, *self.half_flag)
            found, rest = self.parse_known_intermixed_args(words, namespace)
        finally:
            self._is_mixing = False
        for word in sorted(rest, key=lambda word: not word.startswith("-")):
            if not word.startswith("-"):
                self.error(f"{word!r} is one word too many")
            self._refuse("option", word.partition("=")[0], self._option_string_actions)
        return found, rest

    def _refuse(self, kind: str, word: str, known: Iterable[str]) -> NoReturn:
        """Refuse an unknown verb or option, and name the one that was probably meant."""
        from gapless.settings.stranger import closest, hint  # noqa: PLC0415 - only for this message

        there_are = "" if kind == "option" else f": {', '.join(known)}"
        command = self.prog.removeprefix("gapless ")
        self.error(f"{command} has no {kind} {word!r}{hint(closest(word, known)) or there_are}")

    @staticmethod
    def _with_values(words: list[str], name: str, prefix: str, const: str) -> list[str]:
        """Give the half flag its value: argparse would take any word that follows."""
        if name not in words:
            return words
        at = words.index(name)
        if "--" in words[:at]:
            return words
        follows = words[at + 1 : at + 2]
        has_value = bool(follows) and follows[0].startswith(prefix)
        value = follows[0] if has_value else const
        return [*words[:at], f"{name}={value}", *words[at + 1 + has_value :]]

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage: one line is enough."""
        raise UsageError(f"{message} (see {self.prog} --help)")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415 - slow, and rarely needed

        sys.stdout.write(f"gapless {version('gapless')}\n")
        parser.exit()


@dataclass(frozen=True, slots=True)
class WholeNumber:
    """An argument type: a whole number from `low` to `high`."""

    low: int
    high: int | None = None

    def __call__(self, text: str) -> int:
        # int() would take 1_000, spaces and digits of other scripts.
        if not (text.isascii() and text.removeprefix("-").isdigit()) or len(text) > 18:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
        return _within(int(text), self.low, self.high)


whole = WholeNumber


@dataclass(frozen=True, slots=True)
class LongText:
    """An argument type: a text, such as a payload, for which a route takes so many characters."""

    characters_max: int = 60_000  # a body of a route has 65 536 bytes

    def __call__(self, text: str) -> str:
        return text


def number(low: float, high: float | None = None, what: str = "a number") -> Any:
    """Return an argument type: a number from `low` to `high`; what: for the message."""

    def parse(text: str) -> float:
        try:
            said = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None
        return _within(said, low, high)

    return parse


def age_s(text: str) -> int:
    """Read an age, such as 12h, as seconds."""
    seconds = whole_seconds(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age such as 90s, 12h or 30d")
    return seconds


def _within(said: Number, low: float, high: float | None) -> Number:
    if said >= low and (high is None or said <= high):  # never holds for NaN
        return said
    reach = f"{low} or more" if high is None else f"from {low} to {high}"
    raise argparse.ArgumentTypeError(f"{said} must be {reach}")


def _dsn(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "it is empty; leave it out to use GAPLESS_DSN or libpq's environment"
        )
    return text


def _everywhere() -> Parser:
    """Return the options of every command, as a parent of the parsers of commands and verbs."""
    # MUST be suppressed: a command's own parser would reset the options before it to None.
    parser = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    add = parser.add_argument_group(_EVERYWHERE).add_argument
    add("-h", "--help", action="help", help="show this help and exit")
    add("--dsn", type=_dsn, help="the database: a libpq connection string or URI")
    where = "where in the database gapless is (default: gapless)"
    add("--schema", metavar="NAME", help=where)
    configuration = "the configuration (see config/gapless.yml)"
    add("--config", type=Path, metavar="FILE", help=configuration)
    add("--values", type=Path, metavar="FILE", help="values for its placeholders")
    add("--debug", action="store_true", help="show the traceback of an error")
    add("--version", action=_Version, nargs=0, help="show the version")
    return parser


HOW: Any = {
    "parents": [_everywhere()],
    "add_help": False,  # it is among the parent's
    "allow_abbrev": False,  # an abbreviated option could mean another one in the next release
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}
"""The arguments with which each Parser is made."""
