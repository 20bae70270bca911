"""Find handlers by a reference: `module`, `module:name`, `path/file.py`, `path/file.py:name`.

A file is always that file, even if other modules have its name: `app.py` elsewhere, `queue.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from gapless.consume.user.handler import Handler
from gapless.errors import UsageError


def load_handlers(reference: str) -> list[Handler]:
    """Return the handlers of a reference: all of a module, or those of the attribute it names.

    The attribute is a handler, a list of handlers, or a function without arguments returning them.
    Raises UsageError, in one line, if they cannot be loaded.
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
    is_file = where.endswith(".py")
    try:
        return _from_file(Path(where)) if is_file else _from_name(where)
    except ModuleNotFoundError as error:
        if error.name is not None and (
            is_file or where.partition(".")[0] != error.name.partition(".")[0]
        ):
            raise UsageError(
                f"{reference}: it imports {error.name}, which is not installed"
            ) from error
        raise UsageError(
            f"{reference}: no module {where!r} here ({Path.cwd()}) or installed; "
            "name it as package.module, package.module:handler or path/file.py"
        ) from error
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"{reference} fails when imported: {type(error).__name__}: {error}"
        ) from error


def _from_name(name: str) -> ModuleType:
    _look_in(Path.cwd())
    return importlib.import_module(name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    name = _name(path)
    if name in sys.modules and _is_of(sys.modules[name], path):
        return sys.modules[name]
    _look_in(Path.cwd())
    _look_in(path.parent.resolve())  # it can import its neighbours, as a script can
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return sys.modules.get(name, module)


def _name(path: Path) -> str:
    """Return a file's module name: its own name, unless another module has that."""
    name = path.stem
    if name in sys.stdlib_module_names:
        importlib.import_module(name)  # before its neighbour takes that place on the path
    if name not in sys.modules or _is_of(sys.modules[name], path):
        return name
    return f"{name}_{zlib.crc32(bytes(path.resolve())):08x}"


def _is_of(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).exists() and path.samefile(file)


def _look_in(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _attribute(module: ModuleType, attribute: str) -> object:
    found: object = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise UsageError(f"{module.__name__} has no attribute {attribute!r}") from None
    return found
