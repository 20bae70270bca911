"""Find handlers by a reference: `module`, `module:name`, `path/file.py`, `path/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from gapless.consume.user.handler import Handler
from gapless.errors import UsageError


def load_handlers(reference: str) -> list[Handler]:
    """Return the handlers a reference names: all of a module, or the attribute it names.

    The attribute is a handler, a list of handlers, or a function without arguments returning them.
    Raises UsageError in one line when it cannot be had.
    """
    where, _, attribute = reference.partition(":")
    module = _module(where, reference)
    found: object = vars(module).values() if not attribute else _attribute(module, attribute)
    if callable(found) and not isinstance(found, Handler):
        found = _called(found, reference)
    items = [found] if isinstance(found, Handler) else found
    if not isinstance(items, Iterable):
        items = ()
    handlers = list(dict.fromkeys(item for item in items if isinstance(item, Handler)))
    if not handlers:
        raise UsageError(
            f"{reference}: no handler there; put @gapless.handler(topic=…, group=…) above it"
        )
    return handlers


def _called(factory: Callable[[], object], reference: str) -> object:
    try:
        return factory()
    except Exception as error:
        raise UsageError(
            f"{reference} is neither a handler nor a function that returns handlers: {error}"
        ) from error


def _module(where: str, reference: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is not None and where.partition(".")[0] != error.name.partition(".")[0]:
            raise UsageError(
                f"{reference}: it imports {error.name}, which is not installed"
            ) from error
        raise UsageError(
            f"{reference}: no module {where!r} here ({here}) or installed; "
            "name it as package.module, package.module:handler or path/file.py"
        ) from error
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{reference} fails when imported: {type(error).__name__}: {error}"
        ) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    sys.path.insert(0, str(path.parent.resolve()))
    return importlib.import_module(path.stem)


def _attribute(module: ModuleType, attribute: str) -> object:
    found: object = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise UsageError(f"{module.__name__} has no attribute {attribute!r}") from None
    return found
