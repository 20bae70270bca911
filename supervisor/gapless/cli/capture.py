"""The `capture` command: tables whose changes are published."""

from __future__ import annotations

import argparse

from gapless.cli.context import open_connection, show_found
from gapless.cli.parser import Parser, add_verb
from gapless.cli.screen import answer
from gapless.ops.captures import (
    CaptureInfo,
    capture_table,
    list_captures,
    mend_capture,
    release_capture,
)
from gapless.ops.text import quantity

EXAMPLES = """\
A table is named as SQL names it: public.orders, 'public."Order Lines"'. See docs/capture.md.

examples:
  gapless capture add public.orders orders.changes
  gapless capture add public.orders orders.changes --key '{region}/{id}' --columns id,region,total
  gapless capture
  gapless capture remove public.orders
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    add_verb(verbs, "list", _list, "list all captured tables (also without a verb)")
    adding = add_verb(verbs, "add", _add, "publish from now on what is written to a table")
    adding.add_argument("table")
    adding.add_argument("topic")
    adding.add_argument(
        "--key", metavar="TEMPLATE", help="such as '{region}/{id}' (default: the primary key)"
    )
    adding.add_argument(
        "--columns", metavar="NAMES", help="of the payload, with commas between (default: all)"
    )
    adding.add_argument(
        "--old",
        choices=("changed", "all", "none"),
        default="changed",
        help="columns of before that an update has (default: changed)",
    )
    about = "publish no more of a table; what was published stays"
    add_verb(verbs, "remove", _remove, about).add_argument("table")
    about = "make triggers that are missing or disabled, also on new partitions"
    add_verb(verbs, "mend", _mend, about).add_argument("table")


def _list(args: argparse.Namespace) -> int:
    hint = "no table is captured: gapless capture add TABLE TOPIC"
    return show_found(args, "capture", CaptureInfo, list_captures, hint)


def _add(args: argparse.Namespace) -> int:
    columns = None if args.columns is None else [each.strip() for each in args.columns.split(",")]
    with open_connection(args, "capture") as conn:
        capture_table(conn, args.table, args.topic, key=args.key, columns=columns, old=args.old)
    text = f"what is written to {args.table} is published into {args.topic}"
    answer(args, text, table=args.table, topic=args.topic)
    return 0


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "capture") as conn:
        changed = release_capture(conn, args.table)
    nothing = f"nothing to do: {args.table} is not captured"
    text = f"{args.table} is captured no more; what was published stays" if changed else nothing
    answer(args, text, table=args.table, changed=changed)
    return 0


def _mend(args: argparse.Namespace) -> int:
    with open_connection(args, "capture") as conn:
        made = mend_capture(conn, args.table)
    text = f"{args.table}: {quantity(made, 'trigger')} made or enabled"
    answer(args, text, table=args.table, triggers=made)
    return 0
