"""The Python beside the scripts in bin/, as modules."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

BIN = Path(__file__).parents[2] / "bin"


@cache
def script(name: str) -> ModuleType:
    """Import a file of bin/, which no package holds."""
    spec = importlib.util.spec_from_file_location(name, BIN / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
