"""Tools of the examples: the schema, topics and groups, a supervisor for a moment.

All of it is the command `gapless`, as it would be typed; the database is the one that every command
finds, and without any that of the embedded server.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DRAIN_S = 60


def gapless(*words: str | Path) -> None:
    """Run a command of gapless to its end. Raises CalledProcessError when it fails."""
    subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "gapless", *map(str, words)], check=True, stdout=subprocess.DEVNULL
    )


def prepare(topics: Mapping[str, str | None]) -> None:
    """Install the schema, make topics, and the group of each, if any.

    Repeat freely. A supervisor makes its groups itself; those that are there before can be waited
    for at once.
    """
    gapless("init")
    for topic, group in topics.items():
        gapless("topics", "create", topic)
        if group is not None:
            gapless("groups", "create", group, topic)


@contextmanager
def supervisor(app: Path, *, has_console: bool = False) -> Iterator[None]:
    """Run the handlers of a file, as `gapless run FILE` does, until the end of the block."""
    console = [] if has_console else ["--no-console"]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "gapless", "run", str(app), *console],
        stderr=None if has_console else subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()  # it drains: batches in hand are finished, leases are released
        process.wait(DRAIN_S)
