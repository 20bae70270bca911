"""The schema as it was at each set of migrations, out of the history of this repository.

`python tests/migration/states.py` writes data/states.json.xz: for each set of migrations that a commit
had, all of them as they are today, the SQL of the last such commit. Each text is there once. A state is
named by its newest migration, and by those before it that came later: branches were merged.
Today's newest is one of them: whoever adds a migration finds it there.

Not there, for migrate() refuses them (a migration that is applied in another form) and nobody has ever
been given one: commits whose 0001, 0004, 0006, 0009 or a later file was changed afterwards, before the
next migration; and numbers of branches that were others when they were merged.
"""

from __future__ import annotations

import json
import lzma
import subprocess
from collections.abc import Iterable
from pathlib import Path

DATA = Path(__file__).parent / "data" / "states.json.xz"
_KINDS = ("migrations", "functions", "views", "roles")


def states() -> dict[str, dict[str, str]]:
    """Return, for each state, the files of its `sql/` folder: path and text."""
    kept = json.loads(lzma.decompress(DATA.read_bytes()))
    return {
        state: {path: kept["texts"][number] for path, number in files.items()}
        for state, files in kept["states"].items()
    }


def lay_out(files: dict[str, str], folder: Path) -> Path:
    """Write the files of a state into a folder, as `sql/` was; return it."""
    for path, text in files.items():
        made = folder / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text)
    return folder


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def _files(commit: str, folder: str) -> dict[str, str]:
    """Return path and blob of the files of a commit."""
    rows = (line.split(None, 3) for line in _git("ls-tree", "-r", commit, folder).splitlines())
    return {path.removeprefix("sql/"): blob for _, _, blob, path in rows}


def _name(migrations: Iterable[str], today: Iterable[str]) -> str:
    """Return what a state is called that has these migrations."""
    *_, newest = sorted(Path(each).stem for each in migrations)
    had = {Path(each).stem[:4] for each in migrations}
    later = sorted({Path(each).stem[:4] for each in today} - had)
    return "_without_".join([newest, *(each for each in later if each < newest)])


def collect() -> None:
    """Write the archive anew."""
    today = _files("HEAD", "sql/migrations/")
    found: dict[str, dict[str, str]] = {}
    for commit in _git("rev-list", "--date-order", "HEAD", "--", "sql").split():
        had = _files(commit, "sql/migrations/")
        if had and had.items() <= today.items() and (name := _name(had, today)) not in found:
            found[name] = {
                path: blob
                for path, blob in _files(commit, "sql/").items()
                if path.split("/")[0] in _KINDS and path.endswith(".sql")
            }
    texts: dict[str, int] = {}
    kept = {
        state: {path: texts.setdefault(blob, len(texts)) for path, blob in files.items()}
        for state, files in sorted(found.items())
    }
    contents = [_git("cat-file", "blob", blob) for blob in texts]
    text = json.dumps({"states": kept, "texts": contents}, sort_keys=True)
    DATA.write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    collect()
