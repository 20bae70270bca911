"""The schema of this process, and the translation of our SQL from `gapless` to another schema.

A process works in one schema: GAPLESS_SCHEMA, unless use_schema() was called before.

All things that two installations in one database must not share contain the schema's name, or a
number made from it: tables, functions, channels, advisory locks, triggers on captured tables,
settings of a session, the application_name of sessions. Things of the whole server (the roles) and
things that travel with events (headers) keep their names.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from typing import LiteralString

from gapless.errors import ConfigError
from gapless.settings import environment_schema
from gapless.settings.schema import DEFAULT_SCHEMA

# MUST not match the roles gapless_producer, gapless_consumer, gapless_operator, gapless_condition,
# nor `gapless seek`.
# It begins with the word itself, so that the search is one for a literal.
_NAMED = re.compile(
    r"gapless(?:"
    r"(?=\.[a-z_%\"])(?<![\w./-]gapless)(?<!returns: gapless)"  # gapless.topic, gapless.wake
    r"|\b(?:(?<=\bschema gapless)|(?<= if not exists gapless)|(?<= if exists gapless))"
    r"|(?='|/)(?<='gapless)"  # 'gapless'::regnamespace, and the application_name 'gapless/…
    r"|(?=\"\.)(?<=\"gapless)"
    r"|(?=_(?:p|g|capture)_|_(?:sequencer|role|attach)\b)(?<!\wgapless)"  # channels and triggers
    r")"
)
_LOCK_CLASS = re.compile(r"742700([1-9])\b(?<!\d\d{7})")
_DEFAULT_SLOT = 7_427_000 >> 4

_chosen: list[str] = []  # the schema of this process, once it is in use
_forget: list[Callable[[], object]] = []  # clear what was loaded for the previous schema


def schema() -> str:
    """Return the schema of this process. Raises ConfigError for a bad GAPLESS_SCHEMA."""
    if not _chosen:
        _chosen.append(environment_schema(os.environ))
    return _chosen[0]


def use_schema(name: str) -> None:
    """Let this process work, from now on, in a schema that SchemaName has accepted.

    Call it at the start of a process: open sessions keep the SQL they had.
    """
    if _chosen == [name]:
        return
    _chosen[:] = [name]
    for forget in _forget:
        forget()


def once_changed(forget: Callable[[], object]) -> None:
    """Register a cache to clear when this process begins to work in another schema."""
    _forget.append(forget)


def agree_on_schema(wanted: str, source: str) -> None:
    """Let this process work in the wanted schema; never change the schema of a running one.

    source: the origin of the name, for the error. Raises ConfigError if another schema is in use.
    """
    if _chosen and _chosen != [wanted]:
        raise ConfigError(
            f"schema is {wanted} (from {source}), but this process works in {schema()} already: "
            f"set GAPLESS_SCHEMA={wanted} before it starts; one process works in one schema"
        )
    use_schema(wanted)


def here(text: str) -> LiteralString:
    """Return SQL of ours, such as a file of it, translated to the schema of this process.

    It contains no input, so it counts as a literal: the name needs no quotes.
    """
    return in_schema(text, schema())


def schema_words() -> str:
    """Name the schema in a message: `gapless schema`, or `gapless schema "audit"`."""
    return "gapless schema" if schema() == DEFAULT_SCHEMA else f'gapless schema "{schema()}"'


def init_command() -> str:
    """Return the command that installs or upgrades the schema of this process."""
    return "gapless init" if schema() == DEFAULT_SCHEMA else f"gapless init --schema {schema()}"


def in_schema(text: str, schema: str) -> str:
    """Return SQL of ours, translated to a schema that SchemaName has accepted."""
    if schema == DEFAULT_SCHEMA:
        return text
    first = _first_class(schema)
    text = _LOCK_CLASS.sub(lambda found: str(first + int(found[1])), text)
    return _NAMED.sub(schema, text)


def channel_in(channel: str, schema: str) -> str:
    """Return the name in a schema of the channel `gapless_…`; others keep their names."""
    is_ours = channel.startswith(f"{DEFAULT_SCHEMA}_")
    return schema + channel.removeprefix(DEFAULT_SCHEMA) if is_ours else channel


def default_channel(channel: str, schema: str) -> str:
    """Return the channel of a schema under the name that channel_in() takes."""
    is_ours = channel.startswith(f"{schema}_")
    return DEFAULT_SCHEMA + channel.removeprefix(schema) if is_ours else channel


def _first_class(schema: str) -> int:
    """Return the number below the classes of a schema's advisory locks: one of 2^27 - 1.

    Two schemas of a database with the same number would delay, but not harm, each other: no
    exclusive right of gapless depends on an advisory lock alone (sql/README.md).
    """
    slot = int.from_bytes(hashlib.sha256(schema.encode()).digest()[:8], "big") % ((1 << 27) - 1)
    return (slot + (slot >= _DEFAULT_SLOT)) << 4
