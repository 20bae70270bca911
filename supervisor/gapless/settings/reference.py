"""References to a text that is a secret: `env:NAME` and `file:/path`.

They are looked up in the process that needs the text: a command line, a plan and a log show the
reference only.
"""

from __future__ import annotations

import os
from pathlib import Path

from gapless.errors import ConfigError

_BYTES_MAX = 16_384


def is_reference(text: str) -> bool:
    """Tell whether a text is a reference, and not the text itself."""
    return text.startswith(("env:", "file:"))


def dereference(text: str) -> str:
    """Return the text that a reference names; any other text unchanged.

    Raises ConfigError, which shows no value, when there is none.
    """
    if not is_reference(text):
        return text
    kind, _, name = text.partition(":")
    if kind == "env":
        found = os.environ.get(name, "")
        if not found.strip():
            raise ConfigError(f"{text}: the variable {name} is not set here")
        return found.strip()
    path = Path(name.removeprefix("//"))
    if not path.is_absolute():
        raise ConfigError(f"{text}: write the whole path, file:/run/secrets/gapless-dsn")
    try:
        with path.open("rb") as file:  # not all of it: it may be a device
            read = file.read(_BYTES_MAX + 1)
        if len(read) > _BYTES_MAX:
            raise ConfigError(f"{text} is longer than {_BYTES_MAX} bytes: it is another file")
        secret = read.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"{text} cannot be read: {why}") from None
    if not secret:
        raise ConfigError(f"{text}: the file is empty")
    return secret
