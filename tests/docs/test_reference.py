"""The reference that the site gets leaves out nothing that is public."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import gapless
from docs.scripts import script
from gapless import testing
from gapless.settings.record import catalog

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    return script("_reference")


@pytest.fixture(scope="module")
def pages(reference: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("reference")
    reference.main(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def _headings(page: str) -> set[str]:
    return set(re.findall(r"^#{2,4} (.+)$", page, re.MULTILINE))


def test_every_public_name_is_there(pages: dict[str, str], reference: ModuleType) -> None:
    headings = _headings(pages["python.md"])
    assert {f"gapless.{name}" for name in gapless.__all__} <= headings
    assert {"gapless.testing.install", "gapless.testing.drain"} <= headings
    assert {module.__name__ for module in reference.public_modules()} <= headings
    for method in ("`payload`", "`attempt`"):
        assert any(method in heading for heading in headings), method


def test_a_module_that_is_not_there_yet_is_left_out(
    reference: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "PUBLIC", ("gapless.testing", "gapless.not_there"))
    assert reference.public_modules() == [testing]


def test_every_function_is_there(pages: dict[str, str]) -> None:
    made = {
        name
        for path in (ROOT / "sql").rglob("functions/**/*.sql")
        for name in re.findall(
            r"^create or replace (?:function|procedure) gapless\.(\w+)",
            path.read_text(),
            re.MULTILINE,
        )
    }
    told = {heading.removeprefix("gapless.") for heading in _headings(pages["sql.md"])}
    assert len(made) > 100
    assert made <= told


def test_every_setting_is_there(pages: dict[str, str]) -> None:
    assert set(catalog()) <= _headings(pages["settings.md"])
    assert "1 to 600" in pages["settings.md"]


def test_every_command_is_there(pages: dict[str, str]) -> None:
    from gapless.cli.main import COMMANDS

    headings = _headings(pages["commands.md"])
    assert {f"gapless {name}" for name in COMMANDS} <= headings
    assert {"gapless dlq redrive", "gapless topics create", "gapless pipeline run"} <= headings
    assert "--partitions" in pages["commands.md"]


def test_a_docstring_becomes_markdown(reference: ModuleType) -> None:
    said = "What it does.\n\n    code(1)\n\nwhat: this.\nRaises ThisError for that."
    assert reference._text(said) == (
        "What it does.\n\n```python\ncode(1)\n```\n\nwhat: this.  \nRaises ThisError for that."
    )
