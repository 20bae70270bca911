"""bin/mutate: what counts as killed, what an edit is, and that the list of survivors is no dead list."""

import gc
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gapless.db.queries import sql_root
from mutate import python, sql, table
from mutate.__main__ import Run
from mutate.arena import Memory, arena
from mutate.mutant import ROOT, Mutant
from mutate.patch import is_fit, patch
from mutate.session import (
    PLACES,
    Line,
    Results,
    accepted,
    all_mutants,
    chosen,
    classics,
    figure,
    files_of,
)
from mutate.words import nearest, words

MODULE = '''\
"""A purse, and a test of it that forgets something."""


class Purse:
    def __init__(self) -> None:
        self.coins: list[int] = []
        self.told: list[str] = []

    def put(self, coin: int) -> None:
        self.coins.append(coin)
        self.told.append("a coin")
'''
TEST = """\
from purse import Purse


def test_what_is_put_in_is_there():
    purse = Purse()
    purse.put(5)
    assert purse.coins == [5]
"""
SOURCE = "supervisor/purse.py"
KILLER = "tests/test_purse.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A tiny project: one module, one test, under git."""
    for path, text in ((SOURCE, MODULE), (KILLER, TEST)):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def found(text: str) -> list[Mutant]:
    """Edits that need no other library."""
    return list(python.mutants(SOURCE, text, operators=()))


@pytest.mark.long
def test_one_is_killed_and_one_survives(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The checkout stays as it is, results are written line by line."""
    mutants = found(MODULE)
    assert [m.was for m in mutants] == ["self.coins.append(coin)", 'self.told.append("a coin")']
    file = tmp_path_factory.mktemp("results") / "mutants.jsonl"
    run = Run(Results(file), 120, tests_for=lambda _: [KILLER])
    with arena(checkout) as where:
        assert run.baseline(where, mutants)
        run.all([where], iter(mutants))
        assert (where.root / SOURCE).read_text() == MODULE
        # A mutant that cannot even be imported, and one that fails before the others do.
        broken = Mutant(SOURCE, "by hand", "", 1, MODULE, lambda: "raise ValueError\n")
        assert where.try_(broken, ["tests"], Memory(), 120).outcome == "killed"
    outcomes = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["outcome"] for line in outcomes] == ["killed", "survived"]
    assert outcomes[0]["by"] == f"{KILLER}::test_what_is_put_in_is_there"
    assert outcomes[1]["within"] == "Purse.put"
    assert '-        self.told.append("a coin")' in outcomes[1]["diff"]
    assert (checkout / SOURCE).read_text() == MODULE
    assert not list(checkout.rglob("__pycache__"))


@pytest.mark.long
def test_a_kill_that_does_not_come_again_counts_for_nothing(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The test that failed once fails with the one mutant, and not with the other."""
    killed, survived = found(MODULE)
    results = Results(tmp_path_factory.mktemp("results") / "mutants.jsonl")
    for mutant in (killed, survived):
        results.add(Line.of(mutant, "killed", f"{KILLER}::test_what_is_put_in_is_there"))
    run = Run(results, limit_s=120)
    with arena(checkout) as where:
        run.confirm([where], [killed, survived])
    outcomes = {name: line.outcome for name, line in results.lines.items()}
    assert outcomes == {killed.name: "killed", survived.name: "undecided"}


@pytest.mark.long
def test_a_test_that_fails_without_it_kills_no_mutant(checkout: Path) -> None:
    """And the test that names the function comes before others of its kind."""
    tests = [f"tests/test_{name}.py" for name in ("before", "other")]
    for file, text in zip(tests, ("assert False", "'it is put in'; assert False"), strict=True):
        (checkout / file).write_text(f"def test_it():\n    {text}\n")
    kept, _ = found(MODULE)
    with arena(checkout) as where:
        result = where.try_(kept, tests, Memory(), limit_s=120)
        assert (result.outcome, result.by) == ("undecided", f"{tests[1]}::test_it")
        assert where.try_(kept, [KILLER], Memory(), 120).outcome == "killed"


def test_only_functions_can_be_exchanged() -> None:
    text = "LIMIT = 5\nclass C:\n    n = 1\n    def f(self, x=2):\n        return lambda: x + 3\n"
    fit = [is_fit(text, text.replace(digit, "7")) for digit in "5123"]
    assert fit == [False, False, False, True]


def test_words_of_a_mutant() -> None:
    """Of a function of SQL those that call it, too: tests seldom name what is inside."""
    (one, *_) = all_mutants(["sql/features/queue/functions/reserve_aside.sql"])
    assert words(one, ROOT)[0] == "reserve_aside"
    assert "take" in words(one, ROOT)
    (other, *_) = found(MODULE)
    assert words(other, ROOT) == ["put", "Purse", "purse"]
    assert nearest(["tests/mutate"], ["no_" + "such_word", "test_words_of_a_mutant"], ROOT)[0] == (
        "tests/mutate/test_mutate.py"
    )


@pytest.mark.long
def test_a_hang_is_a_failure(checkout: Path) -> None:
    hangs = MODULE.replace("self.coins.append(coin)", "import time; time.sleep(100)")
    with arena(checkout, test_s_max=1) as where:
        slow = Mutant(SOURCE, "by hand", "", 1, MODULE, lambda: hangs)
        result = where.try_(slow, ["tests"], Memory(), 120)
    assert (result.outcome, result.by.rpartition("::")[2]) == (
        "hung",
        "test_what_is_put_in_is_there",
    )


@pytest.mark.long
def test_without_a_mutant_all_must_pass(checkout: Path, tmp_path: Path) -> None:
    (checkout / SOURCE).write_text(MODULE.replace("append(coin)", "append(0)"))
    with arena(checkout) as where:
        run = Run(Results(tmp_path / "mutants.jsonl"), 120, tests_for=lambda _: [KILLER])
        assert not run.baseline(where, found(MODULE))


def test_what_is_known_is_not_lost(tmp_path: Path) -> None:
    one, other = found(MODULE)
    results = Results(tmp_path / "mutants.jsonl")
    for mutant, outcome in ((one, "survived"), (other, "undecided"), (one, "killed")):
        results.add(Line.of(mutant, outcome))  # type: ignore[arg-type]
    again = Results.load(results.path)
    assert {name: line.outcome for name, line in again.lines.items()} == {
        one.name: "killed",
        other.name: "undecided",
    }
    counted = figure(again.lines.values())
    assert (counted.killed, counted.tried) == (1, 1), "undecided is neither"


def test_a_name_outlives_edits_elsewhere() -> None:
    """Of the same edit, further down: the results of an earlier run still fit."""
    names = [mutant.name for mutant in found(MODULE)]
    assert [mutant.name for mutant in found("import os\n\n" + MODULE)] == names


def test_a_sample_is_the_seeds() -> None:
    mutants = list(all_mutants(["sql/features/spark/functions/cut.sql"]))
    lines = [[m.line for m in chosen(mutants, 10, seed)] for seed in (7, 7, 8)]
    assert lines[0] == lines[1] != lines[2]
    assert [m.line for m in chosen(mutants, 5, 7)] == lines[0][:5], (
        "a larger sample has the smaller"
    )


@pytest.mark.parametrize(
    ("text", "edits"),
    [
        ("where a.x = 1 and a.y < 2;", {
            "where true and a.y < 2;", "where a.x = 1 and true;", "where a.x <> 1 and a.y < 2;",
            "where a.x = 1 and a.y <= 2;", "where a.x = 1 or a.y < 2;",
        }),
        ("where x between 1 and 2\norder by y desc", {
            "where true\norder by y desc", "where x between 1 and 2\norder by y ",
        }),
        ("perform pg_notify('a', '');", {"null;"}),
        ("if not found then\n  return;\nend if;", {
            "if not (not found) then\n  return;\nend if;", "if not found then\n  null;\nend if;",
        }),
        ("x is not null or f(greatest(a, b))", {
            "x is null or f(greatest(a, b))", "x is not null and f(greatest(a, b))",
            "x is not null or f(least(a, b))", "x is not null or false",
        }),
        ("where not exists (select from t for update)", {
            "where true", "where  exists (select from t for update)",
            "where not exists (select from t )",
        }),
        ("join b on true", {"join b on false"}),
        ("-- a < b and c\ncreate or replace function f() 'x < y'", set()),
    ],
)  # fmt: skip
def test_edits_of_sql(text: str, edits: set[str]) -> None:
    assert {mutant.mutated for mutant in sql.mutants("f.sql", text)} == edits


def test_edits_of_python() -> None:
    text = (
        "LIMIT = 5\n"
        "def f(x: int | None, y=0) -> bool:\n"
        "    log.info('x', 1)\n"
        "    hit('here')\n"
        "    if x == 1 and y:\n"
        "        raise ValueError\n"
        "    return x < 3\n"
        "def g(*, z: int) -> None: ...\n"
    )
    pytest.importorskip("cosmic_ray", reason="bin/mutate installs it")
    lines = Counter(mutant.line for mutant in python.mutants("f.py", text))
    assert set(lines) == {2, 5, 6, 7}, "no constant, annotation, log line, failpoint or mark"
    now = {mutant.now for mutant in python.mutants("f.py", text) if mutant.line == 7}
    assert now == {"return x <= 3", "return x >= 3", "return x < 4", "return x < 2"}


def test_what_only_type_checkers_read_is_left_alone() -> None:
    text = (
        "if TYPE_CHECKING:\n"
        "    limit = f(1)\n"
        "class Options(TypedDict, total=False):\n"
        "    size: int\n"
        "@overload\n"
        "def f(x: int, *, y: bool = False) -> int: ...\n"
        "def f(x: int, *, y: bool = False) -> int:\n"
        "    return x * 2\n"
    )
    pytest.importorskip("cosmic_ray", reason="bin/mutate installs it")
    found = {(mutant.line, mutant.now) for mutant in python.mutants("f.py", text)}
    assert found == {
        (1, "if not TYPE_CHECKING:"),
        (7, "def f(x: int, *, y: bool = True) -> int:"),
        (8, "return x / 2"), (8, "return x * 3"), (8, "return x * 1"),
    }  # fmt: skip


def test_the_classics_are_in_it() -> None:
    hows = {mutant.how: mutant.path for mutant in classics()}
    late_fence = hows["catalogue/a late fence put in over a newer one"]
    assert late_fence == "sql/lease/functions/lease/install_fence.sql"
    assert len(hows) >= 10


def test_every_source_has_tests() -> None:
    for place in PLACES:
        for file in files_of([place]):
            for test in table.tests_for(str(file.relative_to(ROOT))):
                assert (ROOT / test).exists(), f"{test} of tests/mutate/table.py is gone"
    assert len(table.TABLE) > 50
    assert sql_root() == ROOT / "sql"


def test_accepted_survivors_are_still_there() -> None:
    """The text that was mutated exists, in that function; and each has a reason."""
    known = accepted()
    for each in known:
        source = (ROOT / each.path).read_text()
        lines = {line.strip() for line in source.splitlines()}
        missing = [line for line in each.was.splitlines() if line not in lines]
        assert not missing, (
            f"{each.path} has changed: take {each.within} off tests/mutate/accepted.toml"
        )
        assert each.within.rpartition(".")[2] in source
        assert len(each.reason) > 20
    counts = Counter((each.path, each.within, each.was, each.now) for each in known)
    assert max(counts.values(), default=1) == 1


@pytest.mark.long
def test_against_files_of_tests(tmp_path: Path) -> None:
    """In one process: SQL is installed, and put back; what is accepted is not tried.

    What one file of tests leaves alive the next one tries, in a database of its own.
    """
    file = tmp_path / "mutants.jsonl"
    words = [
        "--only",
        "sql/features/queue/functions/sweep.sql",
        "--sample",
        "6",
        "--results",
        str(file),
    ]
    files = ("test_queue_modes.py", "test_sweep.py")
    tests = [word for name in files for word in ("--against", f"tests/features/queue/twins/{name}")]
    done = subprocess.run(
        [sys.executable, "-m", "mutate", *words, *tests],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": "supervisor:tests"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr
    lines = map(json.loads, file.read_text().splitlines())
    outcomes = Counter({line["name"]: line["outcome"] for line in lines}.values())
    assert outcomes.total() == 6
    assert outcomes["killed"] >= 3
    assert " killed: " in done.stdout


def test_functions_that_were_there_before_the_tests_get_other_code() -> None:
    """Collecting freezes them, and a look at all objects leaves them out."""
    was, now = "def answer():\n    return 1\n", "def answer():\n    return 2\n"
    made: dict[str, Any] = {}
    exec(compile(was, "/a/made.py", "exec"), made)
    gc.freeze()
    patch("made.py", was, now)
    assert made["answer"]() == 2
