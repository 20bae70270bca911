"""How a command says what it takes and what it does with it: one way for all.

    command = Command("capture")

    @command.verb("publish no more of a table", "table", opt("--reason TEXT", "for people"))
    def _remove(conn: Conn, args: Args) -> int:
        return answer(args, "done", removed=ops.release_capture(conn, **args.given))

A function's name without its underscore is the verb; the first one is meant where none is said.
What it returns is the exit code. Arguments are rows: a bare word is one without help. `args.given`
has what was said by the names (dest) of the rows, for a function of gapless.ops to take.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from psycopg import Connection

from gapless.cli.context import flags_of, load_all, open_connection, tell_unsequenced
from gapless.cli.parser import GLOBALS, Parser, whole
from gapless.db.connect import lock_timeout
from gapless.db.locked import naming_holders
from gapless.errors import UsageError

Args = argparse.Namespace
Conn = Connection[Any]
Act = Callable[..., int]
_Place = argparse._ActionsContainer  # noqa: SLF001 - what takes arguments has no other name


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, as argparse takes it; dest: its name as a parameter.

    half: it takes the next word if that begins with the first of these, else means the second.
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
        """Yield it: see Arguments."""
        yield self

    def value(self, said: Any) -> Any:
        """Return what stands for what a program says: a text, a number, a boolean, None."""
        kind = self.options.get("type")
        try:
            return kind(said) if kind is not None and isinstance(said, str) else said
        except argparse.ArgumentTypeError as error:
            raise UsageError(str(error)) from None

    def given(self, args: Args) -> dict[str, Any]:
        """Return what was said, by the name of its parameter."""
        return {self.dest: getattr(args, self.dest)}


@dataclass(frozen=True, slots=True)
class Arguments:
    """Arguments that belong together: below a title of the help, or of which one is said.

    make: makes of them one argument, which has the name `as_one`. Raises UsageError.
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
        """Return what was said, by the names of parameters."""
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

    shown: as the help shows it, its names and what stands for the value: "--limit N".
    """
    words = shown.split()
    names = [word for word in words if word.startswith("-")] or words[:1]
    said = {"metavar": " ".join(words[len(names) :]) or None, "help": about, "type": kind}
    known = {name: it for name, it in said.items() if it is not None}
    long = [name for name in names if name.startswith("--")] or names
    dest = more.get("dest") or long[0].lstrip("-").replace("-", "_")
    return Argument(tuple(names), known | more, dest, half)


def flag(names: str, about: str, /, **more: Any) -> Argument:
    """Return an option without a value; names: with blanks between."""
    return opt(names, about, **{"action": "store_true", **more})


def titled(title: str, *rows: Argument | Arguments) -> Arguments:
    """Return arguments below a title of the help."""
    return Arguments(rows, title=title)


def one_of(*rows: Argument, title: str | None = None, required: bool = False) -> Arguments:
    """Return arguments of which at most one is said; required: and not none."""
    return Arguments(rows, title=title, is_choice=True, required=required)


def together(name: str, make: Callable[[Args], Any], *rows: Argument | Arguments) -> Arguments:
    """Return arguments that `make` makes one of, with that name, before anything is connected."""
    return Arguments(rows, as_one=name, make=make)


def limit(default: int, of: str = "at most", most: int = 1_000_000, **more: Any) -> Argument:
    """Return `--limit`, from 1 to `most`; `of` says of what."""
    about = f"{of} (default: {default})"
    return opt("--limit N", about, whole(1, most), default=default, **more)


def partition(about: str = "only this partition") -> Argument:
    """Return `--partition`."""
    return opt("--partition P", about, whole(0, 4095))


def yes(about: str = "do it") -> Argument:
    """Return `--yes`; without it nothing is changed, and the command says what it would do."""
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
    """A verb, or a command without verbs: its line in the help, its arguments, what does it.

    act: gets a connection, in autocommit, and the arguments, with `loaded`, the settings, and
    `given`, what was said, by the names of parameters; where it does not connect (`connects`), the
    arguments alone. check: looks at these before that. as_settings: arguments that are settings.
    json: whether it takes `--json`. usage: in place of argparse's own. shows_log: it tells how far
    the log or a group is, and so what has no offset yet. route: of the gateway, which does the same
    and answers as with --json: method, path with positional arguments in it, and perhaps the name.
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

    def arguments(self) -> list[Argument]:
        """Return its arguments, whatever groups they are in."""
        return [each for row in self.rows for each in row.flat()]

    def args_of(self, asked: Mapping[str, Any]) -> Args:
        """Return the arguments that a program gives by their names. Raises UsageError."""
        args = Args(json=True)
        vars(args).update({each.dest: each.value(asked[each.dest]) for each in self.arguments()})
        args.given = _given(self.rows, args)
        vars(args).update(args.given)
        if self.check is not None:
            self.check(args)
        return args

    def declare(self, parser: Parser, name: str, *, lists: bool = False) -> None:
        """Declare it as part of the command `name`. lists: it waits for no lock for long."""
        for each in [*self.rows, JSON] if self.json else self.rows:
            each.add_to(parser)
        parser.usage = self.usage
        parser.set_defaults(act=partial(self._run, name, _LIST_WAIT_MS if lists else 0))

    def _run(self, name: str, wait_ms: int, args: Args) -> int:
        args.given = _given(self.rows, args)
        # What every command takes stays that: a file of `schemas` is no --schema.
        vars(args).update({**args.given, **{name: getattr(args, name) for name in GLOBALS}})
        if self.check is not None:
            self.check(args)
        if not self.connects:
            return self.act(args)
        args.loaded = load_all(args, flags_of(args, *self.as_settings))
        with open_connection(args, name, args.loaded.settings) as conn, naming_holders(conn):
            bounded = wait_ms and conn.prepare_threshold is not None  # else a pooler's: share()
            with lock_timeout(conn, wait_ms) if bounded else nullcontext():
                code = self.act(conn, args)
            if self.shows_log:
                tell_unsequenced(conn)
            return code


class Command:
    """A command, as which it connects: what does it, or a verb for each of several things."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._main: Verb | None = None
        self._verbs: dict[str, Verb] = {}

    def main(self, *rows: Takes, **how: Any) -> Callable[[Act], Act]:
        """Return what makes a function the command, which then has no verbs; how: see Verb."""

        def register(act: Act) -> Act:
            taken = [opt(each) if isinstance(each, str) else each for each in rows]
            self._main = Verb(act=act, about="", rows=taken, **how)
            return act

        return register

    def verb(self, about: str, /, *rows: Takes, **how: Any) -> Callable[[Act], Act]:
        """Return what makes a function a verb; about: its line in the help; how: see Verb."""

        def register(act: Act) -> Act:
            taken = [opt(each) if isinstance(each, str) else each for each in rows]
            self._verbs[act.__name__.strip("_")] = Verb(act=act, about=about, rows=taken, **how)
            return act

        return register

    def routed(self, about: str) -> Iterator[tuple[str, Verb]]:
        """Yield what has a route, by name; about: of the command itself."""
        main = {self._name: replace(self._main, about=about)} if self._main is not None else {}
        yield from ((name, verb) for name, verb in (main | self._verbs).items() if verb.route)

    def add_arguments(self, parser: Parser) -> None:
        """Declare it all."""
        if self._main is not None:
            self._main.declare(parser, self._name)
            return
        default = next(iter(self._verbs))
        verbs = parser.add_verbs(default)
        for name, verb in self._verbs.items():
            verb.declare(verbs.add_parser(name, help=verb.about), self._name, lists=name == default)
