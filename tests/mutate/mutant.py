"""What a mutant is here: one file of the checkout with one small edit."""

import difflib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Mutant:
    """An edit that can be made; what it makes of the file is worked out when it is asked for.

    path: from the checkout's root. how: the kind of edit. within: the function, "" outside of one.
    line: where it is, from 1. nth: of the edits that look alike, from 0.
    """

    path: str
    how: str
    within: str
    line: int
    original: str
    make: Callable[[], str]

    @cached_property
    def mutated(self) -> str:
        """The file's text with the edit."""
        return self.make()

    @cached_property
    def was(self) -> str:
        """The lines that are changed, as they are, without indentation."""
        return self._lines("-")

    @cached_property
    def now(self) -> str:
        """The same lines as the mutant has them; "" when they are gone."""
        return self._lines("+")

    @property
    def name(self) -> str:
        """Short and stable: line numbers are not in it, so it outlives edits elsewhere."""
        parts = (self.path, self.within, self.was, self.now)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]

    def diff(self) -> str:
        """Show the edit with a little of what stands around it."""
        lines = difflib.unified_diff(
            self.original.splitlines(), self.mutated.splitlines(),
            self.path, f"{self.path} ({self.how})", lineterm="", n=2,
        )  # fmt: skip
        return "\n".join(lines)

    def _lines(self, sign: str) -> str:
        before, after = self.original.splitlines(), self.mutated.splitlines()
        diff = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]  # without its head
        return "\n".join(line[1:].strip() for line in diff if line[0] == sign)


def replaced(text: str, begin: int, end: int, new: str) -> str:
    """Return the text with `new` for what is from `begin` up to `end`."""
    return text[:begin] + new + text[end:]
