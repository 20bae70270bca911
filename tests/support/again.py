"""`bin/test --again`: failed tests are run again, alone; one that then passes does not fail the run.

A single failure among thousands of tests on a busy machine says little, but must not be hidden:
it is listed with its message. Never repeated: a finding (support.findings), or many failures.

The reporting process keeps a failure back until the other tests have ended. So the exit code,
the closing line and junit see only the last result of a test.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

REPEATS_MAX = 10  # tests; more is a defect, or a machine that can prove nothing
KEPT = "repeated"  # outcome of a report whose test gets another try
_SAME = ("long", "soak")  # options that the second run must have, too


def add_options(parser: pytest.Parser) -> None:
    parser.addoption(
        "--again",
        action="store_true",
        help=f"run up to {REPEATS_MAX} tests that failed once more, alone; list what passes then, and"
        " fail for the rest; never for a failure that speaks of an invariant",
    )
    parser.addoption("--again-reports", metavar="FILE", help=argparse.SUPPRESS)


def configure(config: pytest.Config) -> None:
    """Register the plugins for the options, in the process that reports."""
    if hasattr(config, "workerinput"):
        return
    if path := config.getoption("--again-reports"):
        config.pluginmanager.register(_Writer(config, Path(path)))
    elif config.getoption("--again"):
        config.pluginmanager.register(Again(config))


class Again:
    """Keeps failures back, and has their tests repeated at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._kept: dict[str, list[pytest.TestReport]] = {}  # by test, in order
        self._forgiven: dict[str, str] = {}
        self._unforgiven: dict[str, str] = {}
        self._is_last_word = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        if report.failed and not self._is_last_word:
            found = getattr(report, "finding", "")
            if found:
                self._unforgiven[report.nodeid] = f"not repeated: {found}"
            else:
                self._kept.setdefault(report.nodeid, []).append(report)
                report.outcome = KEPT  # type: ignore[assignment]
        return (yield)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return (KEPT, "R", "REPEATED") if report.outcome == KEPT else None  # type: ignore[comparison-overlap]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, Any, Any]:
        was_whole = False
        try:
            result = yield
            was_whole = True
            return result
        finally:
            self._is_last_word = True
            self._repeat(self._choose() if was_whole else [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for test, why in self._unforgiven.items():
            terminalreporter.write_line(f"{test}: {why}", red=True)
        if not self._forgiven:
            return
        terminalreporter.section("failed once, passed alone", yellow=True)
        for test in self._forgiven:
            terminalreporter.write_line(f"failed once, passed alone: {test}", yellow=True)
        for test, text in self._forgiven.items():
            terminalreporter.write_line(f"\nthe first failure of {test}:", yellow=True)
            terminalreporter.write_line(text)

    def _choose(self) -> list[str]:
        """Return the tests to repeat."""
        chosen = [test for test in self._kept if test not in self._unforgiven]
        if len(chosen) <= REPEATS_MAX:
            return chosen
        for test in chosen:
            self._unforgiven[test] = f"not repeated: more than {REPEATS_MAX} tests failed"
        return []

    def _repeat(self, tests: list[str]) -> None:
        second = self._run(tests) if tests else {}
        for test, first in self._kept.items():
            reports = second.get(test, [])
            if _passed(reports):
                self._forgiven[test] = "\n".join(report.longreprtext for report in first)
                # A test that passed and then failed in its teardown was counted already.
                counted = all(report.when == "teardown" for report in first)
                self._log([] if counted else reports)
                continue
            if test in tests:
                self._unforgiven[test] = (
                    "failed again, alone" if reports else "could not be repeated"
                )
            for report in first:
                report.outcome = "failed"
            self._log(first)

    def _log(self, reports: list[pytest.TestReport]) -> None:
        for report in reports:
            self._config.hook.pytest_runtest_logreport(report=report)

    def _run(self, tests: list[str]) -> dict[str, list[pytest.TestReport]]:
        """Run tests in one process that starts anew; return its reports of each."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(
                f"{len(tests)} failed: once more, alone: {', '.join(tests)}", yellow=True
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reports"
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"]
                + [f"--{name}" for name in _SAME if self._config.getoption(name, default=False)]
                + [f"--rootdir={self._config.rootpath}", f"--again-reports={path}"]
                + (["-c", str(self._config.inipath)] if self._config.inipath else [])
                + tests,
                cwd=self._config.rootpath,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode and terminal is not None:
                terminal.write_line(done.stdout)
            return self._read(path)

    def _read(self, path: Path) -> dict[str, list[pytest.TestReport]]:
        reports: dict[str, list[pytest.TestReport]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            report = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=json.loads(line)
            )
            reports.setdefault(report.nodeid, []).append(report)
        return reports


class _Writer:
    """Writes down the reports of the second run."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("a") as file:
            file.write(json.dumps(data, default=str) + "\n")


def _passed(reports: list[pytest.TestReport]) -> bool:
    """Tell whether a test passed in all its phases; a skipped one did not."""
    return [(r.when, r.outcome) for r in reports] == [
        (when, "passed") for when in ("setup", "call", "teardown")
    ]
