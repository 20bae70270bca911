"""Without a socket nobody asks for metrics, so nobody counts."""

from __future__ import annotations

from socket import socket
from typing import Any

import pytest

from gapless.features.metrics.keep import ROWS_MAX, ExporterKeeper


@pytest.mark.parametrize(("is_asked", "rows"), [(False, 0), (True, ROWS_MAX)])
def test_meters_are_there_for_who_asks(*, is_asked: bool, rows: int) -> None:
    plan: Any = None
    with socket() as listening:
        made = ExporterKeeper(plan, listening if is_asked else None, list)
    assert made.meters._rows_max == rows
