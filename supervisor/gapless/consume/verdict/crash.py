"""The reason in words for a unit that its workers did not survive."""

from __future__ import annotations


def crash_reason(deaths: int, former_end: str) -> str:
    """Return in one line why a unit is not called any more; `former_end`: of the last worker."""
    last = f"; the last one: {former_end}" if former_end else ""
    return f"its worker died, or lost its session, {deaths} times while handling it{last}"
