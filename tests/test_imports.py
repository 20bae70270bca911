"""What is imported within functions is there: nobody notices until the function runs."""

import ast
from pathlib import Path

PACKAGES = Path(__file__).parents[1] / "supervisor"


def _is_there(module: str) -> bool:
    path = PACKAGES.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_every_module_of_gapless_that_is_imported_is_there() -> None:
    """Its own checkout's, whatever another one on the path has."""
    missing = {
        f"{path.relative_to(PACKAGES)}:{node.lineno}: {name}"
        for path in PACKAGES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [each.name for each in node.names]
        )
        if name.split(".")[0] == "gapless" and not _is_there(name)
    }
    assert not missing
