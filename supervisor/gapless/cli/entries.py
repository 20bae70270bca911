"""Print events: a line each, harmless on a terminal whatever is in them."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from gapless.cli.screen import say
from gapless.ops.text import BREAKS, cut_to, plain, stamp

if TYPE_CHECKING:
    from gapless.log.tail import Entry


def terminal_columns() -> int | None:
    """Return how wide the terminal is; None when the output goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_entry(entry: Entry, *, columns: int | None) -> None:
    """Print place, time, key, type and payload, cut to so many columns (None: uncut)."""
    line = "  ".join(
        (
            f"{entry.partition}@{entry.offset}".ljust(8),
            stamp(entry.created_ts),
            _word(entry.key, 12),
            _word(entry.event_type, 16),
            plain((entry.payload or "").translate(BREAKS)),
        )
    )
    say(line.rstrip() if columns is None else cut_to(line.rstrip(), columns))


def _word(text: str | None, width: int) -> str:
    return plain(text or "-").ljust(width)
