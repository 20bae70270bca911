"""Routes of commands: declared with the command, answered as with --json."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.cli.commands import COMMANDS
from gapless.cli.declare import Argument, Verb
from gapless.cli.parser import LongText, WholeNumber
from gapless.errors import UsageError
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.operate import done_by, said
from gapless.features.gateway.shape import Shape, Values, text, truth, whole
from gapless.features.gateway.way import Asked, Route, made
from gapless.settings import Loaded

_COMMANDS = ("topics", "groups", "pause", "resume", "audit")  # and those of features
_VERB = "{verb}"
_OPTION = re.compile(r"--[a-z][a-z-]*")


class _Told(NamedTuple):
    """An answer, as text for the log and as a document."""

    words: str
    document: Any

    def __str__(self) -> str:
        return self.words


class _Configured:
    """The configuration, loaded when a verb asks for it: its errors stop no other verb."""

    def __init__(self, load: Callable[[], Loaded]) -> None:
        self._load = cache(load)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)


def ways() -> Iterator[Route]:
    """Yield a route for each verb that has one; {verb} in a path stands for several verbs."""
    for command, each in COMMANDS.items():
        if command not in _COMMANDS and not each.routed:
            continue
        routed: dict[str, dict[str, Verb]] = {}
        for name, verb in import_module(each.module).command.routed(each.summary):
            routed.setdefault(verb.route, {})[name] = verb
        for route, verbs in routed.items():
            yield _way(route, verbs)


def _way(route: str, verbs: dict[str, Verb]) -> Route:
    method, path = route.split()[:2]
    first = next(iter(verbs.values()))
    abouts = [f"{each.about[0].upper()}{each.about[1:]}" for each in verbs.values()]
    arguments = {each.dest: each for each in first.arguments()}
    in_path = {name for name in arguments if f"{{{name}}}" in path}
    values = Values(
        frozenset(name for name, each in arguments.items() if _is_needed(each)) - in_path,
        {name: _shape(each) for name, each in arguments.items() if name not in in_path},
    )
    how: dict[str, Any] = {"query" if method == "GET" else "body": values}
    if _VERB in path:
        how["in_path"] = {"verb": text(enum=[*verbs])}
    read = "read:{topic}" if "topic" in in_path else "read:*"
    reads = method == "GET" or first.reads
    act = _reads(verbs) if reads else _does(verbs)
    return made(route, read if reads else "operate", act, f"{'; '.join(abouts)}.", **how)


def _is_needed(argument: Argument) -> bool:
    is_flag = argument.names[0].startswith("-")
    return bool(argument.options.get("required", not is_flag and "nargs" not in argument.options))


def _shape(argument: Argument) -> Shape:
    about, kind = argument.options.get("help", ""), argument.options.get("type")
    if argument.options.get("action") == "store_true":
        return truth(about)
    if argument.options.get("action") == "append":
        return text(f"{about.partition(';')[0]}; several with commas between")
    default = argument.options.get("default")
    more = {"default": default} if isinstance(default, str | int) else {}
    if isinstance(kind, WholeNumber) and kind.high is not None:
        return whole(kind.low, kind.high, about, **more)
    if isinstance(kind, LongText):
        more["maxLength"] = kind.characters_max
    return text(about, **more)


def _reads(verbs: dict[str, Verb]) -> Callable[..., Any]:
    async def answer(gateway: Gateway, _request: Request, asked: Asked) -> Response:
        return said((await gateway.sessions.run(_call(gateway, verbs, asked))).document)

    return answer


def _does(verbs: dict[str, Verb]) -> Callable[..., Any]:
    async def answer(gateway: Gateway, request: Request, asked: Asked) -> Response:
        return said((await done_by(gateway, request, _call(gateway, verbs, asked))).document)

    return answer


def _call(
    gateway: Gateway, verbs: dict[str, Verb], asked: Asked
) -> Callable[[Connection[Any]], _Told]:
    """Return the work. Raises UsageError for arguments that do not parse."""
    verb = verbs[asked["verb"]] if "verb" in asked else next(iter(verbs.values()))
    with _named_as_asked(verb):
        args = verb.args_of(asked)
    said = {name: getattr(args, name) for name in verb.as_settings}
    args.loaded = _Configured(partial(gateway.load, overrides=said))

    def work(conn: Connection[Any]) -> _Told:
        told: list[_Told] = []
        args.tell = lambda words, document: told.append(_Told(words, document))
        with _named_as_asked(verb):
            verb.act(conn, args)
        return told[0]

    return work


@contextmanager
def _named_as_asked(verb: Verb) -> Iterator[None]:
    """Let a UsageError name the fields of a request, not the options of the command."""
    try:
        yield
    except UsageError as error:
        fields = {name: each.dest for each in verb.arguments() for name in each.names}
        raise UsageError(_OPTION.sub(lambda m: fields.get(m[0], m[0]), str(error))) from error
