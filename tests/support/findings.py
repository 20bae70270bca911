"""Tell failures that speak of a broken invariant: such a test is never run again in the hope of better.

The verdict is by the exception's text and origin, not by the names of tests, faults or fixtures.
"""

import re
from collections.abc import Iterator

import pytest

_WHAT = "(?:events?|units?|offsets?|effects?|messages?)"
_BROKEN = re.compile(
    "|".join(
        (
            r"\bVIOLATIONS?\b|\bViolation\(",  # of the checker, bin/chaos
            r"\bI(?:1[01]|[1-9]) [a-z]",  # "I6 handled twice": one of them
            r"\b(?:handled|published|applied|delivered|discarded|given|told|done|stored|passed) twice\b",
            rf"\b{_WHAT}\b[^.\n]{{0,30}}\b(?:lost|missing|doubled|duplicated|twice)\b",
            rf"\b(?:lost|missing|doubled|duplicated?|torn) {_WHAT}\b",
            r"\bout of order\b|\btorn\b|\bholes?\b",
        )
    )
)
_FALSIFIED = re.compile("Falsifying example|Failing test case")  # by Hypothesis
_COMPARED = re.compile(r"\bassert .* == ")


def finding(error: BaseException, frames: list[str], *, is_invariant: bool) -> str:
    """Return why a failure must not be forgiven; "" if it may be.

    frames: the functions on the way to it, those of the test first. is_invariant: the test has the mark.
    """
    for each in _chain(error):
        if found := _BROKEN.search(_text(each)):
            return f"it speaks of an invariant ({found[0]!r})"
        if any(map(_FALSIFIED.match, _notes(each))):
            return "hypothesis did it again already"  # other examples would hide it
    if not isinstance(error, AssertionError):
        return ""
    if check := next((name for name in frames if name.startswith("assert_")), None):
        return f"{check}() found something"
    if is_invariant and _COMPARED.search(_text(error)):
        return "a test of an invariant compared, and it was not equal"
    return ""


def look(report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Write on a report the finding of its failure, while the exception still exists."""
    if report.failed and call.excinfo is not None:
        report.finding = finding(  # type: ignore[attr-defined]
            call.excinfo.value,
            [entry.frame.code.name for entry in call.excinfo.traceback],
            is_invariant=item.get_closest_marker("invariant") is not None,
        )


def _text(error: BaseException) -> str:
    """Return its text; "" if its own code fails at that, as that of tests/support/hostile.py does."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - SystemExit, too
        return ""


def _notes(error: BaseException) -> list[str]:
    try:
        return [str(note) for note in getattr(error, "__notes__", ())]
    except Exception:  # noqa: BLE001 - as above
        return []


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its causes, and its members."""
    seen: set[int] = set()
    open_ = [error]
    while open_:
        each = open_.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        open_ += [other for other in (each.__cause__, each.__context__) if other is not None]
        open_ += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
