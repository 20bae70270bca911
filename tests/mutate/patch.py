"""Put an edit into a module that is imported already: its functions get other code.

That is all it can do: what a module does when it is imported, defaults and constants among it, is done.
"""

import gc
from collections.abc import Iterator
from types import CodeType, FunctionType


class UnfitError(Exception):
    """Such an edit needs a new process."""


def patch(path: str, original: str, mutated: str) -> None:
    """Exchange the code of functions of the module at `path`.

    Raises UnfitError. A module that is not imported yet, or a function that is not there, is no reason.
    """
    changed = changes(original, mutated)
    for function in _functions():
        code = function.__code__
        if not code.co_filename.endswith(f"/{path}"):
            continue
        new = changed.get((code.co_qualname, code.co_firstlineno))
        if new is None:
            continue
        try:
            function.__code__ = new.replace(co_filename=code.co_filename)
        except ValueError as error:  # it has other variables of the functions around it
            raise UnfitError(str(error)) from None


def is_fit(original: str, mutated: str) -> bool:
    """Tell whether the edit is of functions alone."""
    try:
        changes(original, mutated)
    except (UnfitError, SyntaxError):
        return False
    return True


def changes(original: str, mutated: str) -> dict[tuple[str, int], CodeType]:
    """Return the functions that differ, by qualified name and line. Raises UnfitError."""
    found: dict[tuple[str, int], CodeType] = {}
    _compare(compile(original, "m", "exec"), compile(mutated, "m", "exec"), found)
    return found


def _compare(old: CodeType, new: CodeType, found: dict[tuple[str, int], CodeType]) -> None:
    if old == new:
        return
    if old.co_flags & 2:  # CO_NEWLOCALS: a function, not a module and not a body of a class
        found[old.co_qualname, old.co_firstlineno] = new
        return
    if _bare(old) != _bare(new):
        raise UnfitError(f"{old.co_qualname} runs when it is imported")
    for one, other in zip(_codes(old), _codes(new), strict=True):
        _compare(one, other, found)


def _bare(code: CodeType) -> tuple[object, object, object]:
    """What it does itself, without the functions in it."""
    consts = [
        CodeType if isinstance(const, CodeType) else (type(const), const)
        for const in code.co_consts
    ]
    return code.co_code, consts, code.co_names


def _codes(code: CodeType) -> Iterator[CodeType]:
    return (const for const in code.co_consts if isinstance(const, CodeType))


def _functions() -> Iterator[FunctionType]:
    gc.unfreeze()  # get_objects() leaves out frozen ones, and collecting tests freezes what is there
    return (each for each in gc.get_objects() if type(each) is FunctionType)
