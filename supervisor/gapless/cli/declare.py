"""Declare the arguments of a command and the function that runs it: one way for all commands.

    command = Command("capture")

    @command.verb("publish no more of a table", "table", opt("--reason TEXT", "for people"))
    def _remove(conn: Conn, args: Args) -> int:
        return answer(args, "done", removed=ops.release_capture(conn, **args.given))

A verb has its function's name without the underscore; the first is the default. It returns the exit
code. Arguments are rows: a bare word is one without help. `args.given` has values by name (dest).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from psycopg import Connection

from gapless.cli.context import load_all, open_connection
from gapless.cli.parser import GLOBALS, HOW, Parser, whole
from gapless.cli.screen import remark
from gapless.db.locked import lock_timeout, naming_holders
from gapless.errors import UsageError

Args = argparse.Namespace
Conn = Connection[Any]
Act = Callable[..., int]
_Place = argparse._ActionsContainer  # noqa: SLF001 - a parser or a group has no other name


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, as argparse takes it; dest: its name as a parameter.

    half: it takes the next word if that begins with the first text, otherwise the second text.
    """

    names: tuple[str, ...]
    options: dict[str, Any]
    dest: str
    half: tuple[str, str] | None = None

    def add_to(self, place: _Place) -> None:
        """Declare it."""
        if self.half is not None:
            assert isinstance(place, Parser)
            place.half_flag = self.names[0], *self.half
        place.add_argument(*self.names, **self.options)

    def flat(self) -> Iterator[Argument]:
        """Yield this argument, as Arguments.flat() does for several."""
        yield self

    def value(self, said: Any) -> Any:
        """Return the value of an argument that a program gives: text, number, boolean or None."""
        if self.options.get("action") == "append":  # a program gives one text, with commas
            return said.split(",") if said else None
        kind = self.options.get("type")
        try:
            return kind(said) if kind is not None and isinstance(said, str) else said
        except argparse.ArgumentTypeError as error:
            raise UsageError(str(error)) from None

    def given(self, args: Args) -> dict[str, Any]:
        """Return the value by the name of its parameter."""
        return {self.dest: getattr(args, self.dest)}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments that belong together: below a title of the help, or exclusive of each other.

    make: combines them into one argument of the name `as_one`. Raises UsageError.
    """

    rows: tuple[Argument | Arguments, ...]
    title: str | None = None
    is_choice: bool = False
    required: bool = False
    as_one: str | None = None
    make: Callable[[Args], Any] | None = None

    def add_to(self, place: _Place) -> None:
        """Declare them."""
        if self.title is not None:
            place = place.add_argument_group(self.title)
        if self.is_choice:
            place = place.add_mutually_exclusive_group(required=self.required)
        for each in self.rows:
            each.add_to(place)

    def flat(self) -> Iterator[Argument]:
        """Yield each argument."""
        for row in self.rows:
            yield from row.flat()

    def given(self, args: Args) -> dict[str, Any]:
        """Return the values by the names of their parameters."""
        if self.make is not None and self.as_one is not None:
            return {self.as_one: self.make(args)}
        return _given(self.rows, args)


def _given(rows: Sequence[Argument | Arguments], args: Args) -> dict[str, Any]:
    return {name: value for row in rows for name, value in row.given(args).items()}


Takes = Argument | Arguments | str


def opt(
    shown: str,
    about: str | None = None,
    kind: Callable[[str], Any] | None = None,
    /,
    *,
    half: tuple[str, str] | None = None,
    **more: Any,
) -> Argument:
    """Return an argument with a value, of type `kind`; `more` goes to argparse as it is.

    shown: the argument as the help shows it, its names and a word for the value: "--limit N".
    """
    words = shown.split()
    names = [word for word in words if word.startswith("-")] or words[:1]
    said = {"metavar": " ".join(words[len(names) :]) or None, "help": about, "type": kind}
    known = {name: it for name, it in said.items() if it is not None}
    long = [name for name in names if name.startswith("--")] or names
    dest = more.get("dest") or long[0].lstrip("-").replace("-", "_")
    return Argument(tuple(names), known | more, dest, half)


def flag(names: str, about: str, /, **more: Any) -> Argument:
    """Return an option without a value; names: separated by blanks."""
    return opt(names, about, **{"action": "store_true", **more})


def titled(title: str, *rows: Argument | Arguments) -> Arguments:
    """Return arguments below a title of the help."""
    return Arguments(rows, title=title)


def one_of(*rows: Argument, title: str | None = None, required: bool = False) -> Arguments:
    """Return arguments of which at most one may be given; required: exactly one."""
    return Arguments(rows, title=title, is_choice=True, required=required)


def together(name: str, make: Callable[[Args], Any], *rows: Argument | Arguments) -> Arguments:
    """Return arguments that `make` combines into one of that name, before any connection."""
    return Arguments(rows, as_one=name, make=make)


def limit(default: int, of: str = "at most", most: int = 1_000_000, **more: Any) -> Argument:
    """Return `--limit`, from 1 to `most`; of: the help, without the default."""
    about = f"{of} (default: {default})"
    return opt("--limit N", about, whole(1, most), default=default, **more)


def partition(about: str = "only this partition") -> Argument:
    """Return `--partition`."""
    return opt("--partition P", about, whole(0, 4095))


def yes(about: str = "do it") -> Argument:
    """Return `--yes`; without it the command only shows the change."""
    return flag("--yes --apply", about, dest="apply")


_LIST_WAIT_MS = 2000  # for a lock
_SHARING = "as many workers can share a group's work (default: totalPartitions, which is 8)"


def partitions(about: str = _SHARING, **more: Any) -> Argument:
    """Return `--partitions`."""
    return opt("--partitions N", about, whole(1, 4096), **more)


TOTAL = partitions(dest="total_partitions")
"""`--partitions` as the setting total_partitions."""
JSON = flag("--json", "print JSON instead of a table")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb, or a command without verbs: its line in the help, its arguments and its function.

    act: gets a connection, in autocommit, and the arguments, with `loaded`, the settings, and
    `given`, the values by the names of parameters; without `connects` it gets the arguments alone.
    check: called with the arguments before that. as_settings: arguments that are settings.
    json: whether it takes `--json`. usage: replaces argparse's own. shows_log: events without an
    offset are mentioned. route: of the gateway, which answers as with --json: method, path with
    positional arguments, and a name. reads: it changes nothing, its route takes a right to read.
    """

    act: Act
    about: str
    rows: Sequence[Argument | Arguments]
    connects: bool = True
    check: Callable[[Args], object] | None = None
    as_settings: Sequence[str] = ()
    json: bool = True
    usage: str | None = None
    shows_log: bool = False
    route: str = ""
    reads: bool = False

    def arguments(self) -> list[Argument]:
        """Return all its arguments, those of groups included."""
        return [each for row in self.rows for each in row.flat()]

    def args_of(self, asked: Mapping[str, Any]) -> Args:
        """Return arguments made of the values that a program names. Raises UsageError."""
        args = Args(json=True)
        vars(args).update({each.dest: each.value(asked[each.dest]) for each in self.arguments()})
        args.given = _given(self.rows, args)
        vars(args).update(args.given)
        if self.check is not None:
            self.check(args)
        return args

    def declare(self, parser: Parser, name: str, *, lists: bool = False) -> None:
        """Declare it as part of the command `name`. lists: it waits for locks only briefly."""
        for each in [*self.rows, JSON] if self.json else self.rows:
            each.add_to(parser)
        parser.usage = self.usage
        parser.set_defaults(act=partial(self._run, name, _LIST_WAIT_MS if lists else 0))

    def _run(self, name: str, wait_ms: int, args: Args) -> int:
        args.given = _given(self.rows, args)
        # The options of every command keep their values: a file of `schemas` is no --schema.
        vars(args).update({**args.given, **{name: getattr(args, name) for name in GLOBALS}})
        if self.check is not None:
            self.check(args)
        if not self.connects:
            return self.act(args)
        args.loaded = loaded = load_all(args, *self.as_settings)
        with open_connection(loaded.settings, name, standby=True) as conn, naming_holders(conn):
            bounded = wait_ms and conn.prepare_threshold is not None  # else a pooler's: share()
            with lock_timeout(conn, wait_ms) if bounded else nullcontext():
                code = self.act(conn, args)
            if self.shows_log:
                from gapless.status.unsequenced import find_unsequenced  # noqa: PLC0415 - slow

                if waits := find_unsequenced(conn):
                    remark(waits)
            return code


class Command:
    """A command with one function, or with several verbs; its connections have its name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._main: Verb | None = None
        self._verbs: dict[str, Verb] = {}

    def main(self, *rows: Takes, **how: Any) -> Callable[[Act], Act]:
        """Return a decorator for the function of a command without verbs; how: see Verb."""

        def register(act: Act) -> Act:
            taken = [opt(each) if isinstance(each, str) else each for each in rows]
            self._main = Verb(act=act, about="", rows=taken, **how)
            return act

        return register

    def verb(self, about: str, /, *rows: Takes, **how: Any) -> Callable[[Act], Act]:
        """Return a decorator that makes a function a verb; about: its help; how: see Verb."""

        def register(act: Act) -> Act:
            taken = [opt(each) if isinstance(each, str) else each for each in rows]
            self._verbs[act.__name__.strip("_")] = Verb(act=act, about=about, rows=taken, **how)
            return act

        return register

    def join(self, other: Command) -> None:
        """Take the verbs of another one, behind those that it has."""
        self._verbs |= other._verbs

    def routed(self, about: str) -> Iterator[tuple[str, Verb]]:
        """Yield the verbs that have a route, by name; about: the command's own line."""
        main = {self._name: replace(self._main, about=about)} if self._main is not None else {}
        yield from ((name, verb) for name, verb in (main | self._verbs).items() if verb.route)

    def add_arguments(self, parser: Parser) -> None:
        """Declare the command with all its verbs."""
        if self._main is not None:
            self._main.declare(parser, self._name)
            return
        default = next(iter(self._verbs))
        verbs = parser.add_verbs(default)
        for name, verb in self._verbs.items():
            parser = verbs.add_parser(name, help=verb.about, **HOW)
            verb.declare(parser, self._name, lists=name == default)
