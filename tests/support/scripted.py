"""A player of scripts without a database: a test chooses its answers; each takes a second."""

from types import ModuleType
from typing import Any

import pytest

from gapless.log.script import Script


class Answers:
    """The rows that a script receives, in order; asked: its queries, each with its parameters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, *rows: Any) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.now_s = 100.0
        self._rows = list(rows)
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)

    def play(self, script: Script[Any]) -> Any:
        row = None
        while True:
            try:
                name, given, _ = script.send(row)
            except StopIteration as done:
                return done.value
            self.asked.append((name, given))
            self.now_s += 1
            row = self._rows.pop(0)
