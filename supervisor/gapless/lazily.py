"""Public names of a package, each imported at its first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def attributes(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; homes: modules, each with its public names.

    So `gapless --help` does not wait for psycopg, nor the pause of a group for the code of replays.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def getattribute(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return getattribute, names


def exports(
    package: str, own: str, modules: Callable[[], Iterable[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the same for the names of `__all__` of modules; own: a name of the package itself.

    They are imported in this order until the name is found; `__all__` itself needs all of them.
    """

    def getattribute(name: str) -> object:
        if name == "__all__":
            return names()
        for each in modules():
            if name in import_module(each).__all__:
                return attributes(package, {each: name})[0](name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({own, *(name for each in modules() for name in import_module(each).__all__)})

    return getattribute, names
