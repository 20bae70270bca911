"""The `schemas` command: the JSON Schemas of a topic's payloads."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import get_args

from gapless.cli.declare import Args, Command, Conn, flag, opt, together
from gapless.cli.parser import LongText, whole
from gapless.cli.screen import answer, listed, told
from gapless.errors import UsageError
from gapless.features.schemas.conform import SCHEMA_BYTES_MAX
from gapless.features.schemas.fit import check_payload
from gapless.features.schemas.ops import (
    LAST_EVENTS,
    LAST_EVENTS_MAX,
    Compatibility,
    add_schema,
    check_schema,
    list_schemas,
    remove_schema,
    show_schema,
)

EXAMPLES = """\
JSON Schema, of drafts 4, 6, 7, 2019-09 and 2020-12. Checked by publish() of Python, gapless
publish, the gateway, and groups that say on_invalid; not by a plain INSERT.

examples:
  gapless schemas add orders order.json --type order.placed
  gapless schemas check orders order-2.json --type order.placed --last 5000
  gapless schemas
  gapless schemas show orders --type order.placed --number 1
  gapless schemas test orders '{"total": 5}' --type order.placed
  gapless schemas remove orders --type order.placed
"""

_TYPE = opt(
    "--type TYPE",
    "of events (default: all types that have no schema of their own)",
    dest="event_type",
)
_NUMBER = opt("--number N", "the number of the version", whole(1, 2**31 - 1), dest="version")
_COMPATIBILITY = opt(
    "--compatibility",
    "with the version before (default: as of that one, else backward)",
    choices=get_args(Compatibility),
)
command = Command("schemas")


def _read(args: Args) -> str:
    """Return the text of the file, if it may be a schema."""
    name = args.file
    if name == "-" and sys.stdin is None:
        raise UsageError("standard input is closed")
    if Path(name).is_dir():
        raise UsageError(f"{name}: is a folder, not a schema")
    with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as file:
        raw = file.read(SCHEMA_BYTES_MAX + 1)
    if len(raw) > SCHEMA_BYTES_MAX:
        raise UsageError(f"{name}: a schema has at most {SCHEMA_BYTES_MAX} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: a schema is UTF-8: {error}") from error


_SCHEMA = together("schema", _read, opt("file", "the schema as JSON; - is standard input"))


@command.verb(
    "list all versions (also without a verb)",
    opt("topic", nargs="?"),
    flag("--brief", "with --json: without the texts of the schemas"),
    route="GET /v1/schemas schemas",
)
def _list(conn: Conn, args: Args) -> int:
    hint = "no schemas: gapless schemas add TOPIC FILE"
    found = list_schemas(conn, args.topic)
    return listed(args, [replace(each, schema="") for each in found] if args.brief else found, hint)


@command.verb(
    "add a version, if it is compatible with the one before",
    "topic",
    _SCHEMA,
    _TYPE,
    _COMPATIBILITY,
    flag("--force", "add it, compatible or not"),
)
def _add(conn: Conn, args: Args) -> int:
    done = add_schema(conn, **args.given)
    name = f"version {done.version} of the schema of {done.topic}/{done.event_type}"
    return answer(args, f"added {name}" if done.changed else f"nothing to do: it is {name}", done)


@command.verb(
    "compare a version with the one before and with the log; add nothing",
    "topic",
    _SCHEMA,
    _TYPE,
    _COMPATIBILITY,
    opt(
        "--last N",
        f"look at the newest N events of each partition (default: {LAST_EVENTS})",
        whole(0, LAST_EVENTS_MAX),
        default=LAST_EVENTS,
        dest="last_events",
    ),
)
def _check(conn: Conn, args: Args) -> int:
    found = check_schema(conn, **args.given)
    told(args, found)
    return 0 if found.compatible == "yes" and not found.misfits else 1


@command.verb(
    "print a version, the newest if none is said",
    "topic",
    _TYPE,
    _NUMBER,
    route="GET /v1/topics/{topic}/schema schema",
)
def _show(conn: Conn, args: Args) -> int:
    found = show_schema(conn, **args.given)
    return answer(args, found.schema, found)


@command.verb(
    "tell whether a payload fits a version, the newest if none is said",
    "topic",
    opt("payload", "JSON", LongText()),
    _TYPE,
    _NUMBER,
    route="POST /v1/topics/{topic}/schema/test testPayload",
    reads=True,
)
def _test(conn: Conn, args: Args) -> int:
    found = check_payload(conn, **args.given)
    told(args, found)
    return 0 if found.fits else 1


@command.verb("take a version away, or all of a type", "topic", _TYPE, _NUMBER)
def _remove(conn: Conn, args: Args) -> int:
    done = remove_schema(conn, **args.given)
    left = "none is left" if done.version is None else f"version {done.version} counts"
    return answer(args, f"removed from {done.topic}/{done.event_type}: {left}", done)
