"""Skips that are expected (tests/skips.toml), and a plugin that makes a run fail for any other.

A test that is always skipped in silence tests nothing: a person who takes a package away from CI is told.
"""

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

LIST = Path(__file__).parents[1] / "skips.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """An expected skip, as skips.toml explains it."""

    tests: str
    reason: str
    why: str
    source: str = ""

    def covers(self, test: str, reason: str) -> bool:
        return fnmatchcase(test, self.tests) and fnmatchcase(reason, self.reason)


def expected(path: Path = LIST) -> list[Skip]:
    """Return the skips of a list."""
    return [Skip(**each) for each in tomllib.loads(path.read_text())["skip"]]


class StrictSkips:
    """Collects the skips in the process that reports; an unexpected one fails the run."""

    def __init__(self, skips: list[Skip]) -> None:
        self._skips = skips
        self._unexpected: dict[tuple[str, str], None] = {}  # in order, each once

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not hasattr(report, "wasxfail"):
            self._look(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._look(report)

    def _look(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped or not isinstance(report.longrepr, tuple):
            return
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not any(skip.covers(report.nodeid, reason) for skip in self._skips):
            self._unexpected[report.nodeid, reason] = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, reason in self._unexpected:
            terminalreporter.write_line(
                f"UNEXPECTED SKIP {test}: {reason} (if that is as it should be: tests/skips.toml)",
                red=True,
            )
