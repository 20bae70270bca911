"""The machine's Chromium, driven by playwright; without either, its tests are skipped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("no browser: needs playwright and Chromium")
    if CHROMIUM is None:
        pytest.skip("no browser: needs playwright and Chromium")
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
