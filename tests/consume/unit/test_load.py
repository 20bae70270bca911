"""References to handlers: a file is that file, whatever else has its name."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

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


@pytest.mark.parametrize(
    "name", ["json.py", "queue.py", "sys.py", "gapless.py", "my.app.py", "my-app.py"]
)
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


NAMES = """
class Space:
    inner = handle
    none = 5
some = [handle, 5, handle]
def made(): return some
def one(): return handle
def each(): yield handle
def nothing(): return None
def fails(): raise KeyError("it")
"""


def test_a_reference_may_name_what_has_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler, a list or a generator of them, what returns them; each once, and nothing else."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "app.py"
    path.write_text(HANDLER.format(topic="mine") + NAMES)
    for attribute in ("", ":handle", ":Space.inner", ":some", ":made", ":one", ":each"):
        for where in ("app", "app.py"):
            assert topics(f"{where}{attribute}") == ["mine"]
    for attribute in (":nothing", ":Space.none"):
        with pytest.raises(UsageError) as caught:
            load_handlers(f"app{attribute}")
        assert str(caught.value) == (
            f"app{attribute}: no handler there; put @gapless.handler(topic=…, group=…) above it"
        )
    with pytest.raises(UsageError, match=r"^app:fails is neither a handler nor a function that "):
        load_handlers("app:fails")
    for attribute in ("nobody", "Space.nobody"):
        with pytest.raises(UsageError, match=f"^app has no attribute '{attribute}'$"):
            load_handlers(f"app:{attribute}")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import nowhere_at_all", "it imports nowhere_at_all, which is not installed"),
        ("import nowhere.at_all", "it imports nowhere, which is not installed"),
        ("raise SystemExit(3)", "fails when imported: SystemExit: 3"),
        ("raise ModuleNotFoundError('it')", "no module "),
        ("import gapless; gapless.handler(unit=1)", r"^handler\(unit=1\): no such option"),
    ],
)
@pytest.mark.parametrize("reference", ["app.py", "app"])
def test_why_a_module_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, body: str, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(body)
    with pytest.raises(UsageError, match=why):
        load_handlers(reference)
    assert "app" not in sys.modules


def test_a_part_of_a_package_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "its_package").mkdir()
    (tmp_path / "its_package" / "__init__.py").touch()
    with pytest.raises(UsageError, match=r"no module 'its_package.part' here") as caught:
        load_handlers("its_package.part:handle")
    assert str(caught.value).endswith(
        f"here ({tmp_path}) or installed; name it as package.module, package.module:handler or "
        "path/file.py"
    )


def test_ctrl_c_amid_an_import_leaves_nothing(tmp_path: Path) -> None:
    path = app(tmp_path, "mine", more="raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_handlers(path)
    assert "app" not in sys.modules
    app(tmp_path, "mine")
    assert topics(path) == ["mine"]


def test_who_is_of_a_file_that_is_gone_does_not_stand_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ModuleType("app")
    gone.__file__ = str(tmp_path / "gone" / "app.py")
    monkeypatch.setitem(sys.modules, "app", gone)
    assert topics(app(tmp_path, "mine")) == ["mine"]


def test_where_its_imports_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it, then here, then wherever they were; each place once."""
    here, path = tmp_path / "here", app(tmp_path / "there", "mine")
    here.mkdir()
    monkeypatch.chdir(here)
    before = list(sys.path)
    load_handlers(path)
    assert sys.path == [str(tmp_path / "there"), str(here), *before]
    app(tmp_path / "there", "other", "other.py")
    load_handlers(str(tmp_path / "there" / "other.py"))
    assert sys.path == [str(tmp_path / "there"), str(here), *before]
    monkeypatch.setattr(sys, "path", list(before))
    with pytest.raises(UsageError):
        load_handlers("nowhere_at_all")
    assert sys.path == [str(here), *before]


def test_a_module_of_python_that_was_not_imported_yet_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert topics(app(tmp_path, "mine", "colorsys.py")) == ["mine"]
    import colorsys

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)
