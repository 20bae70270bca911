"""Our SQL, as it reads in another schema than the one that sql/ is written for.

Everything that two installations in one database must not share has the schema's name in it, or a
number that is made of it: tables, functions, channels, advisory locks, triggers on captured tables,
settings of a session, the application_name of sessions. What is of the whole server (the roles) or
travels with events (headers) keeps its name.
"""

from __future__ import annotations

import hashlib
import re

from gapless.settings.schema import DEFAULT_SCHEMA

# MUST not match the roles gapless_producer, gapless_consumer, gapless_operator, nor `gapless seek`.
# It begins with the word itself, so that the search is one for a literal.
_NAMED = re.compile(
    r"gapless(?:"
    r"(?=\.[a-z_%\"])(?<![\w./-]gapless)(?<!returns: gapless)"  # gapless.topic, gapless.wake
    r"|\b(?:(?<=\bschema gapless)|(?<= if not exists gapless)|(?<= if exists gapless))"
    r"|(?='|/)(?<='gapless)"  # 'gapless'::regnamespace, and the application_name 'gapless/…
    r"|(?=\"\.)(?<=\"gapless)"
    r"|(?=_(?:p|g|capture)_|_sequencer\b|_role\b)(?<!\wgapless)"  # channels and triggers
    r")"
)
_LOCK_CLASS = re.compile(r"742700([1-9])\b(?<!\d\d{7})")
_DEFAULT_SLOT = 7_427_000 >> 4


def in_schema(text: str, schema: str) -> str:
    """Return SQL of ours as it reads in a schema, of which SchemaName has approved."""
    if schema == DEFAULT_SCHEMA:
        return text
    first = _first_class(schema)
    text = _LOCK_CLASS.sub(lambda found: str(first + int(found[1])), text)
    return _NAMED.sub(schema, text)


def channel_in(channel: str, schema: str) -> str:
    """Return the channel `gapless_…` as it is called in a schema."""
    return schema + channel.removeprefix(DEFAULT_SCHEMA)


def _first_class(schema: str) -> int:
    """Return the number below the classes of a schema's advisory locks: one of 2^27 - 1.

    Two schemas of a database that had the same would hinder, and not harm, each other: what only
    gapless may do hangs on no advisory lock alone (sql/README.md).
    """
    slot = int.from_bytes(hashlib.sha256(schema.encode()).digest()[:8], "big") % ((1 << 27) - 1)
    return (slot + (slot >= _DEFAULT_SLOT)) << 4
