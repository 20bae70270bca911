"""The SQL of the benchmarks: every query is used, and every one used is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "benchmarks"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_WORD = re.compile(r'"([a-z_]+)"')


def test_every_query_is_used() -> None:
    names = _NAME.findall((ROOT / "queries.sql").read_text())
    assert len(names) == len(set(names))
    words = {word for path in ROOT.rglob("*.py") for word in _WORD.findall(path.read_text())}
    assert set(names) <= words, set(names) - words


def test_every_baseline_and_script_is_used() -> None:
    code = "\n".join(path.read_text() for path in ROOT.rglob("*.py"))
    for path in [*ROOT.glob("baselines/*.sql"), *ROOT.glob("scripts/*.sql")]:
        assert f'"{path.stem}"' in code, path
