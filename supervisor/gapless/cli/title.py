"""The title of a process, which `ps` shows to every user of the machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

# In an address a password ends at the last @; in key=value, or in a query, with the value.
_SECRETS = (
    (re.compile(r"(://[^:/?#\s]*):[^\s]*(?=@)"), r"\1:…"),
    (re.compile(r"(password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&']+)", re.IGNORECASE), r"\1…"),
)


def hide_passwords(words: Sequence[str]) -> None:
    """Have `ps` show the words of the command without passwords."""
    shown = [without_passwords(word) for word in words]
    if shown != list(words):
        from setproctitle import setproctitle  # noqa: PLC0415 - most commands do not need it

        text = " ".join([Path(sys.argv[0]).name, *shown])
        setproctitle(text.encode(errors="replace").decode())


def without_passwords(text: str) -> str:
    """Return a DSN, or a word that contains one, with … in place of each password."""
    for secret, shown in _SECRETS:
        text = secret.sub(shown, text)
    return text
