"""The flights package, from the wheel or from the checkout's examples/."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def flights_name() -> str:
    """Return the package's import name, after making sure that it can be imported."""
    if importlib.util.find_spec("gapless._flights") is not None:
        return "gapless._flights"
    if str(examples()) not in sys.path:
        sys.path.insert(0, str(examples()))
    return "flights"


def examples() -> Path:
    """Return the checkout's examples/ folder."""
    return Path(__file__).parents[3] / "examples"


def flights(module: str) -> ModuleType:
    """Import one module of the flights package."""
    return importlib.import_module(f"{flights_name()}.{module}")
