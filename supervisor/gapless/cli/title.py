"""The title of a process: what `ps` shows to everybody on the machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

# In an address up to the last @; in key=value, or the query of an address, up to its end.
_SECRETS = (
    (re.compile(r"(://[^:/?#\s]*):[^\s]*(?=@)"), r"\1:…"),
    (re.compile(r"(password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&']+)", re.IGNORECASE), r"\1…"),
)


def hide_passwords(words: Sequence[str]) -> None:
    """Have `ps` show the words of the command without what only this process has to know."""
    shown = [without_passwords(word) for word in words]
    if shown != list(words):
        from setproctitle import setproctitle  # noqa: PLC0415 - most commands need it not

        text = " ".join([Path(sys.argv[0]).name, *shown])
        setproctitle(text.encode(errors="replace").decode())


def without_passwords(text: str) -> str:
    """Return a DSN, or a word with one in it, with … for each password."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    return text
