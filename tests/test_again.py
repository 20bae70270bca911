"""bin/test --again: a failure that does not come again is listed, and one that matters is never forgiven."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.arena import FAULTS
from chaos.coverage import _COUNTS
from support.again import REPEATS_MAX
from support.findings import finding
from support.hostile import HOSTILE

ROOT = Path(__file__).parents[1]
CONFTEST = """
import pytest
from pathlib import Path
from support import again, findings
from support.skips import StrictSkips

def pytest_addoption(parser):
    again.add_options(parser)
    parser.addoption("--strict-skips", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "invariant(*numbers): keeps these")
    if config.getoption("--strict-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(StrictSkips([]))
    again.configure(config)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    findings.look(report, item, call)
    return report

@pytest.fixture
def calls(request):
    '''How often this test began, now included.'''
    path = Path(__file__).with_name(f"{request.node.name}.calls")
    number = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(number))
    return number
"""
GOOD = "def test_good(): pass\n"
ONCE = "def test_once(calls): assert calls > 1, 'the machine was busy'\n"
BAD = "def test_bad(calls): assert not calls\n"
ENDING = "@pytest.fixture\ndef {}(calls):\n    yield\n    assert calls > 1, {!r}\n"
FINDINGS = (
    "def test_0(calls): assert calls > 1, 'I6 handled twice g/t/1@5: e7'\n",
    "def assert_all_once(calls): assert calls > 1\ndef test_1(calls): assert_all_once(calls)\n",
    "@pytest.mark.invariant('I6')\ndef test_2(calls): assert [calls, 1] == [2, 1]\n",
    f"{ENDING.format('whole', 'a hole at 7')}def test_3(whole): pass\n",
    f"{ENDING.format('good', '3 VIOLATIONS')}def test_4(good, calls): assert calls > 1, 'busy'\n",
)
WITH_XDIST = pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="one process", marks=pytest.mark.long),
        pytest.param(("-n", "2"), id="two"),
    ],
)


def run(folder: Path, program: str, *options: str) -> tuple[int, str]:
    """Run planted tests with --again; return the exit code and what was said."""
    (folder / "test_it.py").write_text(f"import pytest\n{program}")
    (folder / "conftest.py").write_text(CONFTEST)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(folder)),
            *("--again", *options, str(folder)),
        ],
        env={
            "PYTHONPATH": str(ROOT / "tests"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # most of the time of such a run
            "PYTEST_ADDOPTS": "-p xdist.plugin",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def calls_of(folder: Path, test: str) -> int:
    return int((folder / f"{test}.calls").read_text())


@pytest.mark.long
@WITH_XDIST
def test_what_failed_once_is_listed_with_what_it_said(
    tmp_path: Path, options: Sequence[str]
) -> None:
    path = tmp_path / "junit.xml"
    code, said = run(tmp_path, GOOD + ONCE, f"--junitxml={path}", *options)
    assert code == 0, said
    assert "failed once, passed alone: test_it.py::test_once" in said
    assert "the machine was busy" in said
    closing = said.splitlines()[-1]
    assert closing.startswith("2 passed, 1 repeated in "), closing
    assert " failed" not in closing
    suite = ET.parse(path).getroot()[0]  # the last word there, too
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    assert {case.get("name") for case in suite} == {"test_good", "test_once"}


@pytest.mark.long
@WITH_XDIST
def test_what_fails_again_and_what_breaks_an_invariant(
    tmp_path: Path, options: Sequence[str]
) -> None:
    code, said = run(tmp_path, GOOD + ONCE + BAD + "".join(FINDINGS), *options)
    assert code == 1
    assert "FAILED test_it.py::test_bad" in said
    assert "test_it.py::test_bad: failed again, alone" in said
    assert calls_of(tmp_path, "test_bad") == 2
    for number in range(len(FINDINGS)):
        assert f"test_it.py::test_{number}: not repeated: " in said
        assert calls_of(tmp_path, f"test_{number}") == 1
    assert said.count("\nfailed once, passed alone: ") == 1
    closing = said.splitlines()[-1]
    assert closing.startswith("5 failed, 3 passed, 2 errors, 3 repeated in "), closing


@pytest.mark.long
def test_an_end_that_failed_once(tmp_path: Path) -> None:
    program = "@pytest.fixture\ndef ended(calls):\n    yield\n    assert calls > 1, 'busy'\n"
    code, said = run(tmp_path, program + "def test_it(ended): pass\n")
    assert code == 0, said
    assert "1 passed, 1 repeated in " in said.splitlines()[-1]


@pytest.mark.long
def test_a_process_that_died(tmp_path: Path) -> None:
    program = "import os\ndef test_it(calls):\n    if calls == 1: os._exit(9)\n"
    code, said = run(tmp_path, GOOD + program, "-n", "2")
    assert code == 0, said
    assert "failed once, passed alone: test_it.py::test_it" in said


@pytest.mark.long
@pytest.mark.parametrize(
    "program",
    [
        "def test_it(calls):\n    if calls > 1: pytest.skip('later')\n    assert 0\n",
        "import os\ndef test_it(calls):\n    if calls > 1: os._exit(0)\n    assert 0\n",
    ],
    ids=["skipped then", "no answer then"],
)
def test_only_passing_is_passing(tmp_path: Path, program: str) -> None:
    code, said = run(tmp_path, GOOD + program)
    assert code == 1, said
    assert "1 failed" in said.splitlines()[-1]


@pytest.mark.long
def test_many_failures_are_a_defect(tmp_path: Path) -> None:
    program = f"@pytest.mark.parametrize('n', range({REPEATS_MAX + 1}))\n"
    code, said = run(tmp_path, program + "def test_it(n, calls): assert calls > 1, 'busy'\n")
    assert code == 1
    assert f"not repeated: more than {REPEATS_MAX} tests failed" in said
    assert f"{REPEATS_MAX + 1} failed" in said.splitlines()[-1]


@pytest.mark.long
def test_a_run_that_was_cut_off_hides_nothing(tmp_path: Path) -> None:
    program = ONCE + "def test_stop(): raise KeyboardInterrupt\n"
    code, said = run(tmp_path, program)
    assert code == 2
    assert said.splitlines()[-1].startswith("1 failed, 1 repeated in "), said
    assert calls_of(tmp_path, "test_once") == 1


@pytest.mark.long
def test_an_unexpected_skip_stays_a_failure(tmp_path: Path) -> None:
    code, said = run(tmp_path, ONCE + "def test_two(): pytest.skip('rain')\n", "--strict-skips")
    assert code == 1
    assert "UNEXPECTED SKIP test_it.py::test_two: rain" in said
    assert "failed once, passed alone: test_it.py::test_once" in said


@pytest.mark.long
def test_a_file_that_cannot_be_imported_fails(tmp_path: Path) -> None:
    assert run(tmp_path, "import nothing_of_the_kind\n")[0] == 2


@pytest.mark.parametrize(
    "said",
    [
        "2 VIOLATIONS\n2 x I6 handled twice",
        "[Violation(invariant='I1', name='lost')]",
        "event e7 was lost",
        "offset 5 given twice",
        "effects out of order",
        "a hole at 7",
        "torn unit",
    ],
)
def test_findings(said: str) -> None:
    assert finding(RuntimeError(said), [], is_invariant=False)
    wrapped = ExceptionGroup("two", [ValueError(said)])
    assert finding(wrapped, [], is_invariant=False)
    caused = KeyError()
    caused.__cause__ = RuntimeError(said)
    assert finding(caused, [], is_invariant=False)


def test_what_hypothesis_falsified_is_a_finding() -> None:
    """It did the same again before it said so; the next time it would look elsewhere."""
    error = AssertionError("1 == 2")
    assert not finding(error, [], is_invariant=False)
    with pytest.raises(AssertionError) as caught:
        _falsified()
    assert finding(caught.value, [], is_invariant=False)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", HOSTILE)
def test_an_error_that_cannot_say_what_it_is(name: str) -> None:
    """None ends the run of the tests, and what it comes of is judged nevertheless."""
    make, _ = HOSTILE[name]
    error = make()
    finding(error, [], is_invariant=True)
    above = KeyError()
    above.__context__ = error
    above.__cause__ = RuntimeError("event e7 was lost")
    assert finding(above, [], is_invariant=False)


@settings(database=None)
@given(st.integers())
def _falsified(number: int) -> None:
    assert number < 5


@pytest.mark.parametrize(
    "said",
    [
        *sorted(FAULTS),
        *_COUNTS,
        "not within 20 s: all handled",
        "2 events not handled after 600 s, for want of CPU or still nearer to its end",
        "the session was lost",
        "connection refused",
    ],
)
def test_names_are_no_findings(said: str) -> None:
    assert not finding(AssertionError(said), ["test_twice"], is_invariant=True)
