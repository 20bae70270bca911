"""Public docstrings say what types cannot: what is raised and when, and the unit of every number."""

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from docs.scripts import script
from support.every import every

reference = script("_reference")
_UNITS = "requests|files|events|units|bytes|characters|seconds|calls|partitions|letters|rows|offset|hours|days|timedelta|steps|sessions"
_UNIT_IN_NAME = re.compile(
    r"_(?:s|ms|bytes|events|units|rows|count|lines|chunks)(?:_max)?$|^chunks_\w+$|"
    r"^(?:events|units|partitions|bytes|groups|topics|members|transactions|duplicates|batches)$"
)
# Numbers that count nothing: they say which one.
_WHICH = {
    "attempt",
    "before",
    "compared_with",
    "offset",
    "status",
    "version",
    "partition",
    "timeline",
    "first_offset",
    "last_offset",
    "id",
    "ids",
    "topic_id",
    "message_id",
    "scheduled_id",
    "descriptor",
    "epoch",
    "last_line",
    "node",
    "parent",
    "pid",
    "upto",
    "xid",
    "exit_code",
}
_RAISES = re.compile(r"\bRaises\b|\braises [A-Z]\w+")


@dataclass(frozen=True)
class Public:
    """A public function, method, property or class; `said`: its docstring, and its class's."""

    name: str
    member: Any
    said: str
    functions: tuple[Callable[..., Any], ...]

    def __str__(self) -> str:
        return self.name


def _members() -> Iterator[Public]:
    for module in reference.public_modules():
        for name, member in reference.public_names(module).items():
            yield from _public(f"{module.__name__}.{name}", member)


def _public(name: str, member: Any) -> Iterator[Public]:
    said = inspect.getdoc(member) or ""
    if not inspect.isclass(member):
        yield Public(name, member, said, (member,) if inspect.isfunction(member) else ())
        return
    made = vars(member).get("__init__")
    own = (made,) if inspect.isfunction(made) and not is_dataclass(member) else ()
    yield Public(name, member, said, own)
    for part_name, part in vars(member).items():
        function = getattr(part, "fget", getattr(part, "func", part))
        is_part = isinstance(part, property | cached_property) or inspect.isfunction(part)
        if is_part and not part_name.startswith("_"):
            told = inspect.getdoc(part) or ""
            yield Public(f"{name}.{part_name}", part, f"{told}\n{said}", (function,))


PUBLIC = list(_members())


def test_it_is_said_what_it_means() -> None:
    def check(public: Public) -> None:
        assert inspect.getdoc(public.member), "no docstring"

    every(check, PUBLIC, str)


def test_what_raises_says_so() -> None:
    def check(public: Public) -> None:
        raised = {why for function in public.functions for why in raises(function)}
        if raised:
            assert _RAISES.search(public.said), f"says nothing of {', '.join(raised)}"

    every(check, PUBLIC, str)


def test_every_number_has_a_unit() -> None:
    def check(public: Public) -> None:
        silent = [name for name in numbers(public) if not has_unit(name, public.said)]
        assert not silent, f"of what are {', '.join(silent)}?"

    every(check, PUBLIC, str)


def raises(function: Callable[..., Any]) -> set[str]:
    """What a function raises itself, and what it calls in this package that says it raises."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            found.add(ast.unparse(node.exc).split("(")[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = inspect.unwrap(function).__globals__.get(node.func.id)
            ours = getattr(called, "__module__", "").startswith("gapless")
            if ours and not hasattr(builtins, node.func.id) and "Raises" in (called.__doc__ or ""):
                found.add(f"what {node.func.id}() does")
    return found


def numbers(public: Public) -> Iterator[str]:
    """The parameters, or fields, that are numbers or times."""
    if is_dataclass(public.member):
        annotated = {each.name: str(each.type) for each in fields(public.member)}
    else:
        annotated = {
            name: str(parameter.annotation)
            for function in public.functions
            for name, parameter in inspect.signature(function).parameters.items()
        }
    for name, annotation in annotated.items():
        if re.search(r"\b(?:int|float|timedelta)\b", annotation) and name not in _WHICH:
            yield name


def has_unit(name: str, said: str) -> bool:
    """Whether the name ends in its unit, or the sentence that begins with it says one."""
    if _UNIT_IN_NAME.search(name):
        return True
    told = re.search(rf"`?\b{name}\b`?:? (?P<what>[^.;]*)", said)
    return told is not None and re.search(rf"\b(?:{_UNITS})\b", told["what"]) is not None


def test_what_is_not_said_is_found() -> None:
    def open_it(size: int, wait: timedelta, timeout_s: float, offset: int) -> None:
        """Open it. wait: how long."""
        raise ValueError(size, wait, timeout_s, offset)

    (public,) = _public("open_it", open_it)
    assert raises(open_it) == {"ValueError"}
    assert _RAISES.search(public.said) is None
    assert [name for name in numbers(public) if not has_unit(name, public.said)] == ["size", "wait"]
    assert has_unit("size", "size: events of a claim, 1 to 100.")
