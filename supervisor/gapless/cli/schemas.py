"""The `schemas` command: what payloads of a topic have to be."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from gapless.cli.context import open_connection, show_found
from gapless.cli.parser import Parser, add_verb, whole
from gapless.cli.screen import answer, say
from gapless.errors import UsageError
from gapless.log.conform import SCHEMA_BYTES_MAX
from gapless.ops.schemas import (
    LAST_EVENTS,
    LAST_EVENTS_MAX,
    Compatibility,
    SchemaCheck,
    SchemaInfo,
    add_schema,
    check_schema,
    list_schemas,
    remove_schema,
    show_schema,
)
from gapless.ops.text import json_text, quantity

EXAMPLES = """\
JSON Schema, of drafts 4, 6, 7, 2019-09 and 2020-12. Checked by publish() of Python, gapless
publish, the gateway, and groups that say on_invalid; not by a plain INSERT.

examples:
  gapless schemas add orders order.json --type order.placed
  gapless schemas check orders order-2.json --type order.placed --last 5000
  gapless schemas
  gapless schemas show orders --type order.placed --number 1
  gapless schemas remove orders --type order.placed
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    listing = add_verb(verbs, "list", _list, "list all versions (also without a verb)")
    listing.add_argument("topic", nargs="?")
    for name, act, about in (
        ("add", _add, "add a version, if it is compatible with the one before"),
        ("check", _check, "compare a version with the one before and with the log; add nothing"),
    ):
        verb = add_verb(verbs, name, act, about)
        verb.add_argument("topic")
        verb.add_argument("file", help="the schema as JSON; - is standard input")
        _add_type(verb)
        verb.add_argument(
            "--compatibility",
            choices=get_args(Compatibility),
            help="with the version before (default: as of that one, else backward)",
        )
        if act is _add:
            verb.add_argument("--force", action="store_true", help="add it, compatible or not")
        else:
            verb.add_argument(
                "--last",
                type=whole(0, LAST_EVENTS_MAX),
                default=LAST_EVENTS,
                metavar="N",
                help=f"look at the newest N events of each partition (default: {LAST_EVENTS})",
            )
    for name, act, about in (
        ("show", _show, "print a version, the newest if none is said"),
        ("remove", _remove, "take a version away, or all of a type"),
    ):
        verb = add_verb(verbs, name, act, about)
        verb.add_argument("topic")
        _add_type(verb)
        verb.add_argument(
            "--number", type=whole(1, 2**31 - 1), metavar="N", help="the number of the version"
        )


def _add_type(verb: Parser) -> None:
    verb.add_argument(
        "--type",
        dest="event_type",
        metavar="TYPE",
        help="of events (default: all types that have no schema of their own)",
    )


def _list(args: argparse.Namespace) -> int:
    hint = "no schemas: gapless schemas add TOPIC FILE"
    return show_found(
        args, "schemas", SchemaInfo, lambda conn: list_schemas(conn, args.topic), hint
    )


def _add(args: argparse.Namespace) -> int:
    schema = _read(args.file)
    with open_connection(args, "schemas") as conn:
        done = add_schema(
            conn,
            args.topic,
            schema,
            event_type=args.event_type,
            compatibility=args.compatibility,
            force=args.force,
        )
    name = f"version {done.version} of the schema of {done.topic}/{done.event_type}"
    text = f"added {name}" if done.changed else f"nothing to do: it is {name}"
    answer(args, text, **asdict(done))
    return 0


def _check(args: argparse.Namespace) -> int:
    schema = _read(args.file)
    with open_connection(args, "schemas") as conn:
        found = check_schema(
            conn,
            args.topic,
            schema,
            event_type=args.event_type,
            compatibility=args.compatibility,
            last_events=args.last,
        )
    if args.json:
        say(json_text(asdict(found)))
    else:
        _say_check(found)
    return 0 if found.compatible == "yes" and not found.misfits else 1


def _say_check(found: SchemaCheck) -> None:
    if found.compared_with is None:
        say("version before: none")
    else:
        said = f"backward: {found.backward}, forward: {found.forward}"
        say(f"version before: {found.compared_with}; {said}; asked for: {found.compatibility}")
    say(f"log: {quantity(found.events, 'event')} looked at, {found.misfits} of them do not fit")
    for each in found.problems:
        where = f"{found.topic}/{each.partition}@{each.offset}"
        say(f"  {where}: {each.pointer or 'the payload'}: {each.reason}")


def _show(args: argparse.Namespace) -> int:
    with open_connection(args, "schemas") as conn:
        found = show_schema(conn, args.topic, args.event_type, args.number)
    say(json_text(asdict(found)) if args.json else found.schema)
    return 0


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "schemas") as conn:
        done = remove_schema(conn, args.topic, args.event_type, args.number)
    left = "none is left" if done.version is None else f"version {done.version} counts"
    answer(args, f"removed from {done.topic}/{done.event_type}: {left}", **asdict(done))
    return 0


def _read(name: str) -> str:
    """Return the text of a file, if it may be a schema."""
    if name == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        raw = sys.stdin.buffer.read(SCHEMA_BYTES_MAX + 1)
    else:
        path = Path(name)
        if path.is_dir():
            raise UsageError(f"{name}: is a folder, not a schema")
        with path.open("rb") as file:
            raw = file.read(SCHEMA_BYTES_MAX + 1)
    if len(raw) > SCHEMA_BYTES_MAX:
        raise UsageError(f"{name}: a schema has at most {SCHEMA_BYTES_MAX} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: a schema is UTF-8: {error}") from error
