"""A plugin of pytest for runs against mutants: the tests that may fail soonest come first.

MUTATE_ORDER names a JSON file {"first": [ids], "seconds": {id: seconds}, "words": [words]}; MUTATE_SEEN
a file that gets {"seconds": {id: seconds}, "failed": [ids], "hung": bool} of this run.
"""

import json
import os
import re
from functools import cache
from pathlib import Path

import pytest

UNKNOWN_S = 0.5
SLOW_S = 5.0  # such a test comes after the others, whatever it names

_seconds: dict[str, float] = {}
_failed: list[str] = []
_hung: list[str] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Former killers first, then those that name what is mutated, then the quick ones.

    A file's tests stay in its order otherwise.
    """
    known = json.loads(Path(os.environ["MUTATE_ORDER"]).read_text())
    first = {name: at for at, name in enumerate(known["first"])}
    seconds = known["seconds"]
    words = [re.compile(rf"\b{re.escape(word)}\b") for word in known.get("words", ())]

    def rank(item: pytest.Item) -> tuple[int, float, int, float]:
        took_s = seconds.get(item.nodeid, UNKNOWN_S)
        slow_s = took_s if took_s > UNKNOWN_S else 0.0
        at = first.get(item.nodeid, len(first))
        return at, slow_s if slow_s > SLOW_S else 0.0, _mentions(item, words), slow_s

    items.sort(key=rank)


def _mentions(item: pytest.Item, words: list[re.Pattern[str]]) -> int:
    """Return how far down the list the first word is that the test has, or else its file."""
    function = getattr(item, "function", None)
    line = function.__code__.co_firstlineno if hasattr(function, "__code__") else 0
    texts = _text_from(item.path, line), _text_from(item.path, 0)
    ranks = (
        nth * len(words) + at
        for nth, text in enumerate(texts)
        for at, word in enumerate(words)
        if word.search(text)
    )
    return next(ranks, 2 * len(words))


@cache
def _text_from(path: Path, line: int) -> str:
    """Return the text of the function that begins there; of all the file from 0."""
    text = path.read_text()
    if line == 0:
        return text
    rest = "".join(text.splitlines(keepends=True)[line - 1 :])
    return re.split(r"\n\n\n(?=\S)", rest, maxsplit=1)[0]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _failed.append(report.nodeid)
        if "Timeout (>" in str(report.longrepr):  # pytest-timeout
            _hung.append(report.nodeid)


def pytest_sessionfinish() -> None:
    seen = {"seconds": _seconds, "failed": _failed, "hung": bool(_hung)}
    Path(os.environ["MUTATE_SEEN"]).write_text(json.dumps(seen))
