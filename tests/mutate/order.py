"""A plugin of pytest for runs against mutants: the tests that may fail soonest come first.

MUTATE_ORDER names a JSON file {"first": [ids], "seconds": {id: seconds}}; MUTATE_SEEN a file that
gets {"seconds": {id: seconds}, "failed": [ids], "hung": bool} of this run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

UNKNOWN_S = 0.5

_seconds: dict[str, float] = {}
_failed: list[str] = []
_hung: list[str] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Former killers first, then the quick ones; a file's tests stay in its order otherwise."""
    known = json.loads(Path(os.environ["MUTATE_ORDER"]).read_text())
    first = {name: at for at, name in enumerate(known["first"])}
    seconds = known["seconds"]

    def rank(item: pytest.Item) -> tuple[int, float]:
        took_s = seconds.get(item.nodeid, UNKNOWN_S)
        return first.get(item.nodeid, len(first)), took_s if took_s > UNKNOWN_S else 0.0

    items.sort(key=rank)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _failed.append(report.nodeid)
        if "Timeout (>" in str(report.longrepr):  # pytest-timeout
            _hung.append(report.nodeid)


def pytest_sessionfinish() -> None:
    seen = {"seconds": _seconds, "failed": _failed, "hung": bool(_hung)}
    Path(os.environ["MUTATE_SEEN"]).write_text(json.dumps(seen))
