"""The declaration of a setting: one place for its name, type, range, default and meaning.

A section of settings is a frozen dataclass, and its attributes are declared by the functions here.
The key in YAML is the attribute in camel case (`member_ttl_ms` is `memberTtlMs`), and the names in
the environment are made of that. `bin/_settings.py` writes config/gapless.yml: a section's
docstring is its title, an attribute's docstring is its comment, with the words of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, get_args

from gapless.settings.kinds import Choice, Dsn, Kind, Text, Truth, Whole

SECTION = "gapless"
"""Names of our own settings begin with this prefix: `gapless.topic`, GAPLESS_TOPIC."""

CLASSIC_SECTION = "db-event-consumer"
"""Settings of light-portal's file may have this prefix too, so the file works unchanged."""

NAME_CHARACTERS_MAX = 200
REFERENCE_CHARACTERS_MAX = 1_000


def setting(kind: Kind, default: object = None, *, classic: bool = False) -> Any:
    """Declare a setting; Any, because the annotation beside it is the type, as with field()."""
    metadata = {"kind": kind, "classic": classic}
    return field(default=default, metadata=metadata, repr=not isinstance(kind, Dsn))


def whole(default: int | None, low: int, high: int, *, null: str = "") -> Any:
    """Declare a whole number."""
    return setting(Whole(low=low, high=high, null=null), default)


def classic_whole(default: int, low: int, high: int) -> Any:
    """Declare a whole number that light-portal's file has, too."""
    return setting(Whole(low=low, high=high), default, classic=True)


def name(default: str | None, *, null: str = "", classic: bool = False) -> Any:
    """Declare a name."""
    return setting(Text(longest=NAME_CHARACTERS_MAX, null=null), default, classic=classic)


def choice(of: object) -> Any:
    """Declare one of the words of a Literal; the first one is the default."""
    words = get_args(of)
    return setting(Choice(words=words), words[0])


def no_by_default() -> Any:
    """Declare a truth that is false unless it is set."""
    return setting(Truth(), default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The facts about one setting, except its value. owner: the record that has it."""

    key: str
    owner: type
    attribute: str
    kind: Kind
    default: object
    names: tuple[str, ...]
    """The names in placeholders and values file, in the environment by environment_name(); the
    first one wins over the rest."""


@cache
def environment_name(name: str) -> str:
    """Return the variable for a name, as light-4j does: upper case, other characters become _."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


def settings_of(owner: Any) -> Iterator[Setting]:
    """Yield the settings of a record, in their order."""
    for declared in fields(owner):
        if "kind" not in declared.metadata:
            continue
        key = re.sub(r"_([a-z])", lambda match: match[1].upper(), declared.name)
        sections = (SECTION, CLASSIC_SECTION) if declared.metadata["classic"] else (SECTION,)
        yield Setting(
            key=key,
            owner=owner,
            attribute=declared.name,
            kind=declared.metadata["kind"],
            default=declared.default,
            names=tuple(f"{each}.{key}" for each in sections),
        )
