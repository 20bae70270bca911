"""References to handlers: a file is that file, whatever else has its name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.consume.user.load import load_handlers
from gapless.errors import UsageError

HANDLER = """
import gapless
@gapless.handler(topic="{topic}", group="g")
def handle(unit, conn): pass
"""


@pytest.fixture(autouse=True)
def as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports is gone behind it, and what others imported by this name is not there."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "app", raising=False)
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def app(folder: Path, topic: str, name: str = "app.py", more: str = "") -> str:
    """Write a file with a handler of a topic; return its path."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(more + HANDLER.format(topic=topic))
    return str(folder / name)


def topics(reference: str) -> list[str]:
    return [handler.topic for handler in load_handlers(reference)]


def test_files_of_one_name_in_two_folders(tmp_path: Path) -> None:
    one, two = app(tmp_path / "one", "first"), app(tmp_path / "two", "second")
    assert (topics(one), topics(two)) == (["first"], ["second"])
    assert (topics(f"{two}:handle"), topics(f"{one}:handle")) == (["second"], ["first"])


def test_a_file_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by another path, and when a program has imported it by its name."""
    one, two = app(tmp_path / "one", "first"), app(tmp_path / "two", "second")
    for path in (one, two):
        (handler,) = load_handlers(path)
        assert load_handlers(f"{path}:handle") == [handler]
        monkeypatch.chdir(Path(path).parent)
        (again,) = load_handlers("app.py")
        assert again is handler
    assert sys.modules["app"].handle in load_handlers(one)


@pytest.mark.parametrize("name", ["json.py", "queue.py", "gapless.py", "my.app.py", "my-app.py"])
def test_a_file_named_like_a_module(tmp_path: Path, name: str) -> None:
    was = sys.modules.get(Path(name).stem)
    assert topics(app(tmp_path, "mine", name)) == ["mine"]
    assert sys.modules.get(Path(name).stem) is was or was is None


@pytest.mark.long
def test_python_keeps_its_own_module(tmp_path: Path) -> None:
    """In a process that has not imported it yet."""
    path = app(tmp_path, "mine", "wave.py")
    program = f"""
import sys
from gapless.consume.user.load import load_handlers
assert "wave" not in sys.modules
print(load_handlers({path!r})[0].topic)
import wave
print(wave.Wave_read.__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["mine", "Wave_read"], done.stderr


def test_neighbours_are_there(tmp_path: Path) -> None:
    (tmp_path / "settings_of_it.py").write_text("TOPIC = 'mine'\n")
    path = app(tmp_path, "mine", more="from settings_of_it import TOPIC\n")
    assert topics(path) == ["mine"]


def test_a_file_that_fails_can_be_mended(tmp_path: Path) -> None:
    path = app(tmp_path, "mine", more="raise ValueError('no')\n")
    with pytest.raises(UsageError, match=r"app.py fails when imported: ValueError: no"):
        load_handlers(path)
    assert "app" not in sys.modules
    app(tmp_path, "mine, mended")
    assert topics(path) == ["mine, mended"]


def test_what_it_lacks_is_named(tmp_path: Path) -> None:
    path = app(tmp_path, "mine", more="import app.models\n")
    with pytest.raises(UsageError, match=r"it imports app.models, which is not installed"):
        load_handlers(path)
    with pytest.raises(UsageError, match=r"nowhere.py: no such file"):
        load_handlers(str(tmp_path / "nowhere.py"))
    with pytest.raises(UsageError, match=r"no module 'nowhere_at_all' here"):
        load_handlers("nowhere_at_all")
