"""Somebody at a keyboard: python -m chaos.person LOOKS WAITS VERB …, which is `gapless dlq VERB …`.

The command first looks whether the units may be changed, and refuses where one may not. Two that start
together seldom come to that look in the same moment, and the second one is refused. So each closes the
end LOOKS of a pipe when it has looked, and acts when the other end of WAITS is closed.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

from gapless.cli import dlq
from gapless.cli.main import main

_look = dlq.require_units


def person(looks: int, waits: int, words: Sequence[str]) -> int:
    """Give the command; return its exit code."""

    def look(*args: Any) -> Any:
        units = _look(*args)
        os.close(looks)
        os.read(waits, 1)  # nothing is ever written: it is closed
        return units

    with patch.object(dlq, "require_units", look):
        return main(["dlq", *words])


if __name__ == "__main__":
    sys.exit(person(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
