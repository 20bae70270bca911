"""The tests of `bin/test --fast`: those of invariants, and those without database and waiting."""

from pathlib import Path

import pytest

ALONE = ("tests/docs/", "tests/test_tidy.py")  # and the folders `unit` of all rooms
_SLOW = {"slow", "long", "soak", "chaos", "spark"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without such a test: importing them would take half of the time."""
    if not config.getoption("--fast") or not collection_path.name.startswith("test_"):
        return None
    name = str(collection_path.relative_to(config.rootpath))
    if _is_alone(name) or "mark.invariant(" in collection_path.read_text(encoding="utf-8"):
        return None
    return True


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect every other test."""
    config.hook.pytest_deselected(items=[item for item in items if not _is_fast(item)])
    items[:] = [item for item in items if _is_fast(item)]


def _is_fast(item: pytest.Item) -> bool:
    names = set(item.keywords)
    needs_server = "server_dsn" in getattr(item, "fixturenames", ())
    return "invariant" in names or (
        _is_alone(item.nodeid) and not needs_server and not names & _SLOW
    )


def _is_alone(name: str) -> bool:
    return name.startswith(ALONE) or "/unit/" in name.partition("::")[0]
