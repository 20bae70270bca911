"""The console's pictures: made by bin/pictures, as they are in docs/, and shown by the pages."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from docs.scripts import script
from gapless.status.draw import WORDS
from gapless.status.keys import HELP

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "run"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pictures")
    script("_pictures").main(folder)
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_the_pictures_in_docs_are_those_of_the_script(made: dict[str, str]) -> None:
    """What differs was drawn by an older console: bin/pictures."""
    assert sorted(made) == sorted(path.name for path in DOCS.glob("console*.svg"))
    for name, text in made.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: run bin/pictures"


def test_a_picture_needs_nothing_from_elsewhere(made: dict[str, str]) -> None:
    for text in made.values():
        ET.fromstring(text)
        assert "url(http" not in text.replace('"', "")
        assert "@font-face" not in text
        assert "Traceback" in text or "billing/orders" in text


def test_the_pages_show_the_pictures(made: dict[str, str]) -> None:
    page = (DOCS / "console.md").read_text(encoding="utf-8")
    assert all(f"]({name})" in page for name in made)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/run/console.svg)" in readme
    assert "](docs/run/console.md)" in readme


def test_the_page_has_every_key_and_word_of_the_help() -> None:
    page = (DOCS / "console.md").read_text(encoding="utf-8")
    for keys, _ in HELP:
        for key in keys.split():
            assert re.search(rf"^\| .*(?<!\w){re.escape(key)}(?!\w)", page, re.MULTILINE), key
    for word, _ in WORDS:
        assert re.search(rf"^\| {re.escape(word)} \|", page, re.MULTILINE), word
