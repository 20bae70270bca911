"""A run with --strict-skips fails for a skip that nobody expects, and the list expects none in vain."""

import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from support.skips import LIST, Skip, expected

ROOT = Path(__file__).parents[1]
PROGRAM = """
import pytest

def test_one():
    pytest.skip("the moon is full")

def test_two():
    pass

@pytest.mark.skipif(True, reason="no reason")
def test_three():
    pass
"""
PLUGIN = """
from pathlib import Path
from support.skips import StrictSkips, expected

def pytest_configure(config):
    config.pluginmanager.register(StrictSkips(expected(Path(__file__).with_name("skips.toml"))))
"""


def run(folder: Path, *skips: tuple[str, str]) -> tuple[int, str]:
    """Run pytest on a file with two skips, of which these are expected."""
    (folder / "test_it.py").write_text(PROGRAM)
    (folder / "conftest.py").write_text(PLUGIN)
    (folder / "skips.toml").write_text(
        "skip = []\n" * (not skips)
        + "".join(
            f'[[skip]]\ntests = "{tests}"\nreason = "{reason}"\nwhy = "x"\n'
            for tests, reason in skips
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", folder, folder],
        env={"PYTHONPATH": str(ROOT / "tests"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.long
def test_an_unexpected_skip_is_a_failure_and_says_so(tmp_path: Path) -> None:
    code, said = run(tmp_path, ("test_it.py::test_three", "no *"))
    assert code == 1
    told = [line for line in said.splitlines() if line.startswith("UNEXPECTED")]
    assert len(told) == 1
    assert told[0].startswith("UNEXPECTED SKIP test_it.py::test_one: the moon is full")
    assert run(tmp_path)[1].count("UNEXPECTED SKIP") == 2


@pytest.mark.long
def test_expected_skips_are_none(tmp_path: Path) -> None:
    code, said = run(tmp_path, ("*", "no reason"), ("test_it.py*", "the moon*"))
    assert (code, said.count("UNEXPECTED")) == (0, 0), said


@pytest.mark.long
def test_another_reason_or_test_is_unexpected(tmp_path: Path) -> None:
    assert run(tmp_path, ("test_it.py::test_[23]*", "*"))[0] == 1
    assert run(tmp_path, ("*", "no reason"), ("*", "the moon"))[0] == 1


@pytest.mark.parametrize("skip", expected(), ids=lambda skip: f"{skip.tests} {skip.reason}")
def test_what_is_expected_may_still_happen(skip: Skip) -> None:
    """Its tests are there, and the file that skips them says so."""
    file, _, name = skip.tests.partition("::")
    here = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    paths = [path for path in here if fnmatchcase(path, file)]
    assert paths or skip.source == "bin/_server", f"{LIST.name}: there is no {skip.tests}"
    sources = sorted(ROOT.glob(skip.source)) if skip.source else [ROOT / path for path in paths]
    text = "\n".join(path.read_text() for path in sources)
    assert skip.reason.strip("*") in text, f"{LIST.name}: nothing is skipped for {skip.reason!r}"
    wanted = name.strip("*")
    assert not wanted or wanted in text, f"{LIST.name}: there is no {skip.tests}"
    assert skip.why.strip()
