"""A feature is its folders: without those of four, and without their lines in the list, the core works.

From a copy of the tree four features are removed: each one's folder of Python, of SQL and of tests, and its lines in
features/__init__.py. Nothing else changes. There the core's tests pass: a choice of them, one of each kind. No function
of the core is kept back for them. `claim_kept()` (filters) calls `claim_latest()` (compaction) by name, in a branch for
groups that begin with the newest event of each key, of which there is none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REMOVED = ("capture", "webhooks", "compaction", "history")
COPIED = ("supervisor", "sql", "config", "tests", "examples")
CORE = (
    "tests/migration/test_migrate.py::test_it_installs_everything_once",
    "tests/cli/test_init.py::test_init_says_what_it_did_and_then_nothing",
    "tests/log/test_publish.py",
    "tests/log/test_sequence_rows.py",
    "tests/consume/test_claim.py",
    "tests/consume/test_dead_letters.py",
    "tests/worker/test_kill.py::test_a_killed_worker_is_replaced",
    "tests/cli/test_doctor.py::test_without_a_schema",
    "tests/cli/test_doctor.py::test_who_keeps_chunks_from_being_made",
    "tests/status/test_status.py::test_a_fresh_database",
    "tests/status/test_status.py::test_members_owners_and_hand_over",
    "tests/features/retention/test_apply.py",
)


def _without(root: Path, name: str) -> None:
    """Remove a feature from a tree."""
    for folder in ("supervisor/gapless/features", "sql/features", "tests/features"):
        shutil.rmtree(root / folder / name)
    listed = root / "supervisor/gapless/features/__init__.py"
    text = listed.read_text()
    (record,) = re.findall(rf"from gapless\.features\.{name}\.feature import (\w+)\n", text)
    listed.write_text(re.sub(rf"(?m)^.*\b{record}\b.*\n", "", text))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_core_works_without_four_features(tmp_path: Path) -> None:
    for folder in COPIED:
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in REMOVED:
        _without(tmp_path, name)
    apart = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")
    } | {"PYTHONPATH": str(tmp_path / "supervisor"), "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=apart,
            capture_output=True,
            text=True,
            check=False,
        )

    imported = run("-c", "import gapless; print(gapless.__file__)")
    assert imported.stdout.startswith(str(tmp_path)), "the copy is tested"
    page = "import asyncio; from gapless.features.gateway import page; "
    page += "print(asyncio.run(page.page_file(None, None, {'name': 'features.js'})).body.decode())"
    rooms = run("-c", page).stdout
    assert "scheduled" in rooms
    assert not [name for name in REMOVED if name in rooms], "a page goes with its room"
    done = run("-m", "pytest", "-q", "-rN", "-p", "no:cacheprovider", *CORE)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
