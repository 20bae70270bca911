"""The `capture` command: tables whose changes are published."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.screen import answer, changed, listed
from gapless.features.capture.ops import capture_table, list_captures, mend_capture, release_capture
from gapless.ops.text import quantity

EXAMPLES = """\
A table is named as SQL names it: public.orders, 'public."Order Lines"'. See docs/use/capture.md.

examples:
  gapless capture add public.orders orders.changes
  gapless capture add public.orders orders.changes --key '{region}/{id}' --columns id,region,total
  gapless capture
  gapless capture remove public.orders
"""
command = Command("capture")


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


@command.verb("list all captured tables (also without a verb)")
def _list(conn: Conn, args: Args) -> int:
    hint = "no table is captured: gapless capture add TABLE TOPIC"
    return listed(args, list_captures(conn), hint)


@command.verb(
    "publish the writes to a table from now on",
    "table",
    "topic",
    opt("--key TEMPLATE", "such as '{region}/{id}' (default: the primary key)"),
    opt("--columns NAMES", "of the payload, with commas between (default: all)", _names),
    opt(
        "--old",
        "columns of before that an update has (default: changed)",
        choices=("changed", "all", "none"),
        default="changed",
    ),
)
def _add(conn: Conn, args: Args) -> int:
    capture_table(conn, **args.given)
    text = f"writes to {args.table} are published into {args.topic}"
    return answer(args, text, table=args.table, topic=args.topic)


@command.verb("publish no more of a table; published events stay", "table")
def _remove(conn: Conn, args: Args) -> int:
    done = "{table} is captured no more; published events stay"
    return changed(args, release_capture(conn, args.table), done, "{table} is not captured")


@command.verb("make triggers that are missing or disabled, also on new partitions", "table")
def _mend(conn: Conn, args: Args) -> int:
    made = mend_capture(conn, args.table)
    text = f"{args.table}: {quantity(made, 'trigger')} made or enabled"
    return answer(args, text, table=args.table, triggers=made)
