"""Exceptions that are hard to turn into text."""

from collections.abc import Callable

import psycopg


class StrRaisesError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class StrExitsError(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class ReprRaisesError(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no text for you")


class StrIsNoTextError(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307


class NotesRaiseError(Exception):
    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes for you")


class StateRaisesError(psycopg.Error):
    sqlstate = "\0\0\0\0\0"


class Bytes:
    def __repr__(self) -> str:
        return "\ud800\0\ud8ff"


def deep_recursion() -> Exception:
    def recurse(n: int) -> None:
        if n:
            recurse(n - 1)
        raise ValueError("at the bottom")

    try:
        recurse(500)
    except ValueError as error:
        return error
    raise AssertionError


def endless_recursion() -> Exception:
    def recurse() -> None:
        recurse()

    try:
        recurse()
    except RecursionError as error:
        return error
    raise AssertionError


def chain(errors: int) -> Exception:
    error = ValueError("0")
    for n in range(1, errors):
        following = ValueError(str(n))
        following.__cause__ = error
        error = following
    return error


def cycle() -> Exception:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def own_cause() -> Exception:
    error = ValueError("mine")
    error.__cause__ = error
    return error


def nested_group(depth: int) -> Exception:
    error: Exception = ValueError("innermost")
    for n in range(depth):
        error = ExceptionGroup(f"group {n}", [error, ValueError("x")])
    return error


def with_note() -> Exception:
    error = ValueError("noted")
    error.add_note("a \0 note \udcff")
    return error


def surrogate_name() -> Exception:
    kind = type("Odd", (Exception,), {"__qualname__": "Odd\0", "__module__": "m\ud800"})
    found: Exception = kind("x")
    return found


# A function that makes one, and a word that its text must keep.
HOSTILE: dict[str, tuple[Callable[[], BaseException], str]] = {
    "plain": (lambda: ValueError("plain"), "ValueError: plain"),
    "no text": (ValueError, "ValueError"),
    "NUL": (lambda: ValueError("a\0b"), "ValueError: a\\x00b"),
    "lone surrogate": (lambda: ValueError("a\ud800b"), "ValueError: a\\ud800b"),
    "undecodable bytes": (
        lambda: ValueError(b"\xff\xfe\0".decode(errors="surrogateescape")),
        "ValueError: \\udcff\\udcfe\\x00",
    ),
    "any language": (lambda: ValueError("žluťoučký 🐎 \u202e"), "žluťoučký 🐎"),
    "control characters": (lambda: ValueError("\x1b[31m\r\b\x7f"), "ValueError: \x1b[31m"),
    "megabytes": (lambda: ValueError("x" * 5_000_000 + "end"), "characters left out"),
    "megabytes of NUL": (lambda: ValueError("\0" * 2_000_000), "characters left out"),
    "megabytes in lines": (lambda: ValueError("line\n" * 1_000_000), "characters left out"),
    "str raises": (StrRaisesError, "StrRaisesError"),
    "str exits": (StrExitsError, "StrExitsError"),
    "str is no text": (StrIsNoTextError, "StrIsNoTextError"),
    "repr raises": (lambda: ValueError(ReprRaisesError("x")), "ValueError"),
    "own repr raises": (lambda: ReprRaisesError("x"), "ReprRaisesError: x"),
    "not text": (lambda: ValueError({"a": [1, None]}, b"\0"), "{'a': [1, None]}"),
    "repr is broken": (lambda: ValueError([Bytes()]), "ValueError: [\\ud800\\x00"),
    "notes": (with_note, "a \\x00 note \\udcff"),
    "notes raise": (lambda: NotesRaiseError("x"), "NotesRaiseError"),
    "name": (surrogate_name, "Odd\\x00: x"),
    "deep": (deep_recursion, "ValueError: at the bottom"),
    "endless": (endless_recursion, "RecursionError"),
    "long chain": (lambda: chain(3000), "ValueError: 2999"),
    "cycle": (cycle, "ValueError: first"),
    "own cause": (own_cause, "ValueError: mine"),
    "group": (lambda: ExceptionGroup("all", [ValueError("a\0"), TypeError("b")]), "TypeError: b"),
    "nested groups": (lambda: nested_group(50), "ExceptionGroup: group 49"),
    "wide group": (
        lambda: ExceptionGroup("all", [ValueError(str(n)) for n in range(5000)]),
        "all (5000 sub-exceptions)",
    ),
    "sqlstate": (lambda: StateRaisesError("x"), "StateRaisesError: x"),
    "system exit": (lambda: SystemExit("bye\0"), "SystemExit: bye\\x00"),
    "stop": (lambda: StopIteration("x"), "StopIteration: x"),
}
