"""The newest report of the doctor, which a gateway keeps."""

from __future__ import annotations

import asyncio
from typing import Any


class Examination:
    """The report, and its time by monotonic(); None: there is none yet. lock: of the next one."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.report: dict[str, Any] | None = None
        self.made_s = 0.0
