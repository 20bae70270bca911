"""A trail: which functions of the package ran, in which files, and how often the file changed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import gapless

PACKAGE = str(Path(gapless.__file__).parent)
FAILPOINTS = str(Path(PACKAGE) / "failpoints.py")
_ENDS_A_STAY = frozenset({"call", "return"})


class Trail:
    """What ran between begin and end. A generator that goes on is a call; so is its yield a return.

    functions: distinct ones. files: distinct ones. changes: how often the next line that ran was in
    another file of the package. What runs outside of it (psycopg, the standard library) does not
    count; nor does a failpoint, which does nothing, or a part of a function, as a comprehension.
    Nor is a failpoint, which does nothing, or a part of a function, such as a comprehension.
    """

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        self._stays: list[str] = []
        self._depth: list[bool] = []

    @property
    def functions(self) -> int:
        """How many different functions ran."""
        return len(self._codes)

    @property
    def files(self) -> int:
        """How many different files they are in."""
        return len({code.co_filename for code in self._codes})

    @property
    def changes(self) -> int:
        """How often a reader turns to another file."""
        return max(0, len(self._stays) - 1)

    def story(self) -> list[str]:
        """Return the files in the order in which a reader meets them."""
        return [str(Path(each).relative_to(PACKAGE)) for each in self._stays]

    def names(self) -> list[str]:
        """Return the functions, by file."""
        return sorted(
            f"{Path(code.co_filename).relative_to(PACKAGE)}:{code.co_qualname}"
            for code in self._codes
        )

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Take one event of sys.setprofile()."""
        if event not in _ENDS_A_STAY:
            return
        there: FrameType | None = frame
        if event == "call":
            if _counts(frame.f_code):
                self._codes.add(frame.f_code)
        else:
            there = frame.f_back
            while there is not None and not _counts(there.f_code):
                there = there.f_back
        if there is None or not _counts(there.f_code):
            return
        if not self._stays or self._stays[-1] != there.f_code.co_filename:
            self._stays.append(there.f_code.co_filename)


def _counts(code: CodeType) -> bool:
    return (
        code.co_filename.startswith(PACKAGE)
        and code.co_filename != FAILPOINTS
        and not code.co_name.startswith("<")
    )


@contextmanager
def trail() -> Iterator[Trail]:
    """Follow what runs in this thread within the block."""
    found = Trail()
    sys.setprofile(found.note)
    try:
        yield found
    finally:
        sys.setprofile(None)
