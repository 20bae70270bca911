"""The syntax of a cron text, as gapless.cron_next() reads it, for code without a database."""

from __future__ import annotations

import re
from typing import NamedTuple

from gapless.errors import UsageError


class _Field(NamedTuple):
    what: str
    low: int
    high: int
    names: str = ""

    def in_numbers(self, part: str) -> str:
        """Return a part with numbers in place of names."""
        for number, name in enumerate(self.names.split(), start=self.low):
            part = re.sub(rf"\b{name}\b", str(number), part)
        return part


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    _Field("day of week", 0, 7, "sun mon tue wed thu fri sat"),
)
_SHORT = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_PART = re.compile(r"(?:(\*)|(\d{1,4})(?:-(\d{1,4}))?)(?:/(\d{1,4}))?", re.ASCII)


def check_cron(cron: str) -> None:
    """Raise UsageError for an invalid cron text; only the database finds one that never fires."""
    text = cron.strip(" ").lower()
    if text in _SHORT:
        return
    fields = re.split(r"\s+", text)
    if len(fields) != len(_FIELDS):
        raise UsageError(
            f'cron "{cron[:200]}" has {len(fields)} fields, not 5: minute, hour, day of month, '
            "month, day of week"
        )
    for known, said in zip(_FIELDS, fields, strict=True):
        for part in map(known.in_numbers, said.split(",")):
            if not _fits(part, known):
                raise UsageError(
                    f'cron "{cron[:200]}": {known.what} cannot be "{part[:50]}"; it is '
                    f"{known.low}-{known.high}, *, a-b, */n, several with commas"
                )


def _fits(part: str, known: _Field) -> bool:
    found = _PART.fullmatch(part)
    if found is None:
        return False
    every, first, last, step = found.groups()
    low = known.low if every else int(first)
    high = known.high if every or (step and not last) else int(last or first)
    return known.low <= low <= high <= known.high and (step is None or int(step) > 0)
