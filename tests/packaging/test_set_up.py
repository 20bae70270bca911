"""bin/_environment says how far a set-up is, on a terminal in one line; a fake pip stands for the packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.terminal import Terminal, in_terminal

ROOT = Path(__file__).parents[2]
# A set-up whose installation writes the log that it is given, and then waits for a file.
SCRIPT = """
self={root}/bin/gapless
TMPDIR={folder}
. {root}/bin/_environment
is_ready() {{ return 1; }}
is_usable() {{ return 1; }}
make_venv() {{ :; }}
install() {{
  cat {folder}/log >>"$log"
  until [ -e {folder}/go ]; do sleep 0.05; done
  return {code}
}}
venv={folder}/venv
mkdir -p $venv/bin
ln -sf {python} $venv/bin/python
set_up test
"""
FOUND = "Collecting psycopg\n  Downloading psycopg\nCollecting rich (from gapless)\n"
INSTALLS = (
    "Installing collected packages: pip\nCollecting rich\nInstalling collected packages: a, b, c\n"
)
PROGRAM = """
import os
def run(script):
    os.execvp("sh", ["sh", script])
"""


def _script(folder: Path, log: str, code: int = 0) -> str:
    (folder / "log").write_text(log)
    path = folder / "set-up"
    path.write_text(SCRIPT.format(root=ROOT, folder=folder, python=sys.executable, code=code))
    return str(path)


def _go(folder: Path) -> None:
    (folder / "go").touch()


@pytest.mark.long
@pytest.mark.parametrize(
    ("log", "said"),
    [
        (FOUND, "s, 2 packages found, and more to come"),
        (INSTALLS, "s, installs 3 packages, the last part"),
        ("Installing collected packages: pip\n" + FOUND, "s, 2 packages found, and more to come"),
        ("Resolved 77 packages in 1.2s\n", "s, installs 77 packages, the last part"),
        ("warming up\n", "\x1b[Kgapless: set-up: 2 s"),
    ],
    ids=["resolves", "installs", "renews pip", "by uv", "begins"],
)
def test_a_line_is_rewritten_until_it_is_done(tmp_path: Path, log: str, said: str) -> None:
    with in_terminal(
        PROGRAM, _script(tmp_path, log), shows="setting up its environment"
    ) as terminal:
        terminal.wait_for(said)
        _go(tmp_path)
        terminal.wait_for("code 0")
        lines = _lines(terminal)
        assert len(lines) == 2, "what was rewritten is gone"


@pytest.mark.long
def test_an_error_and_ctrl_c_stand_on_lines_of_their_own(tmp_path: Path) -> None:
    with in_terminal(PROGRAM, _script(tmp_path, FOUND, code=1), shows="2 packages") as terminal:
        _go(tmp_path)
        terminal.wait_for("code 2")
        assert any(line.startswith("gapless: cannot install") for line in _lines(terminal))
    (tmp_path / "go").unlink()
    with in_terminal(PROGRAM, _script(tmp_path, FOUND), shows="2 packages") as terminal:
        terminal.keys("\x03")
        terminal.wait_for("gapless: set-up interrupted after ")
        terminal.wait_for("the next call begins it anew")
        terminal.wait_for("code 130")
        assert terminal.is_as_before


def test_without_a_terminal_nothing_is_rewritten(tmp_path: Path) -> None:
    _go(tmp_path)
    done = subprocess.run(
        ["sh", _script(tmp_path, FOUND)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TERM": "xterm"},
    )
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


def _lines(terminal: Terminal) -> list[str]:
    """Return the lines as they stand at the end: what is behind the last return to the left."""
    ended = terminal.plain.partition("\n")[2].replace("\r\n", "\n")
    return [shown for line in ended.split("\n") if (shown := line.rpartition("\r")[2])]
