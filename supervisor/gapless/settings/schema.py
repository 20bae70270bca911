"""The kind of a setting that names a schema: a name that SQL never has to quote.

So one translation of our SQL is right wherever the name appears: before a dot, in a literal, in the
name of a channel, of a trigger or of a setting of the session.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapless.settings.kinds import Kind, RefusedValueError

DEFAULT_SCHEMA = "gapless"
"""The default schema, for which sql/ is written."""

# A channel adds up to 18 bytes to the name, a trigger on a captured table 17; the limit is 63.
CHARACTERS_MAX = 40

_NAME = re.compile(rf"(?!pg_)[a-z_][a-z0-9_]{{0,{CHARACTERS_MAX - 1}}}")

_OCCUPIED = frozenset({"public", "information_schema", "plpgsql"})

# Every word of SQL (PostgreSQL 14 to 18) or PL/pgSQL that is not a name everywhere without quotes;
# tests/db/test_names.py compares with pg_get_keywords().
_RESERVED = """
all analyse analyze and any array as asc asymmetric authorization begin between bigint binary bit
boolean both by case cast char character check coalesce collate collation column concurrently
constraint create cross current_catalog current_date current_role current_schema current_time
current_timestamp current_user dec decimal declare default deferrable desc distinct do else end
except execute exists extract false fetch float for foreach foreign freeze from full grant
greatest group grouping having if ilike in initially inner inout int integer intersect interval
into is isnull join json json_array json_arrayagg json_exists json_object json_objectagg
json_query json_scalar json_serialize json_table json_value lateral leading least left like limit
localtime localtimestamp loop merge_action national natural nchar none normalize not notnull null
nullif numeric offset on only or order out outer overlaps overlay placing position precision
primary real references returning right row select session_user setof similar smallint some strict
substring symmetric system_user table tablesample then time timestamp to trailing treat trim true
union unique user using values varchar variadic verbose when where while window with xmlattributes
xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize
xmltable
"""
_WORDS = frozenset(_RESERVED.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaName(Kind):
    """A name that needs no quotes, and that neither the server nor most databases use."""

    def _what(self) -> str:
        return (
            f"1 to {CHARACTERS_MAX} lower-case letters of a to z, digits and underscores, no digit "
            "first, not pg_…, public, information_schema, plpgsql or a reserved word of SQL"
        )

    def _parse(self, raw: object) -> str:
        if not isinstance(raw, str) or not _NAME.fullmatch(raw):
            raise RefusedValueError
        if raw in _OCCUPIED or raw in _WORDS:
            raise RefusedValueError
        return raw
