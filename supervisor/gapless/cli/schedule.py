"""The `schedule` command: what is published again and again."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable

from gapless.cli.context import changer, open_connection, show_found
from gapless.cli.parser import Parser, add_verb
from gapless.cli.screen import answer
from gapless.log.schedules import Schedule, add_schedule
from gapless.ops.schedules import (
    ScheduleInfo,
    list_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
)
from gapless.ops.text import stamp

EXAMPLES = """\
The database computes when a schedule is due; whoever gives offsets publishes (gapless run).

examples:
  gapless schedule add nightly reports --cron '0 3 * * *' --zone Europe/Berlin
  gapless schedule add pulse pulses --every 30s --missed skip
  gapless schedule
  gapless schedule pause nightly
"""
_EVERY = re.compile(r"([0-9]{1,9})([smhd])", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    add_verb(verbs, "list", _list, "list all schedules (also without a verb)")
    about = "add a schedule, or change the one of that name"
    _declare_add(add_verb(verbs, "add", _add, about))
    for name, (summary, act) in _VERBS.items():
        add_verb(verbs, name, act, summary).add_argument("name")


def _declare_add(adding: Parser) -> None:
    adding.add_argument("name", help="letters, digits, dots, dashes and underscores")
    adding.add_argument("topic")
    rhythm = adding.add_mutually_exclusive_group(required=True)
    rhythm.add_argument("--cron", metavar="TEXT", help="minute hour day month weekday, or @daily")
    rhythm.add_argument("--every", metavar="AGE", help="30s, 15m, 12h, 1d, or '1 month'")
    adding.add_argument(
        "--zone", default="UTC", help="whose clock, such as Europe/Berlin (default: UTC)"
    )
    adding.add_argument(
        "--missed",
        choices=("once", "all", "skip"),
        default="once",
        help="what becomes of due times that passed while nobody published (default: once)",
    )
    adding.add_argument(
        "--payload", metavar="JSON", help="of each event (default: its name and due time)"
    )
    adding.add_argument("--key", help="same key, same partition, in order")
    adding.add_argument("--type", dest="event_type", metavar="TYPE", help="default: the name")
    adding.add_argument(
        "--start", metavar="TIME", help="nothing is due before; --every counts from it"
    )


def _list(args: argparse.Namespace) -> int:
    hint = "no schedule yet: gapless schedule add NAME TOPIC --cron '0 3 * * *'"
    return show_found(args, "schedule", ScheduleInfo, list_schedules, hint)


def _add(args: argparse.Namespace) -> int:
    schedule = Schedule(
        name=args.name,
        topic=args.topic,
        cron=args.cron,
        every=None if args.every is None else _interval(args.every),
        zone=args.zone,
        missed=args.missed,
        key=args.key,
        event_type=args.event_type,
        payload=args.payload,
        starts_at=args.start,
    )
    with open_connection(args, "schedule") as conn:
        due = add_schedule(conn, schedule)
    text = f"schedule {args.name} publishes into {args.topic}, next at {stamp(due)}"
    answer(args, text, name=args.name, topic=args.topic, next_due=due)
    return 0


def _interval(text: str) -> str:
    """Return an age as an interval of the database; anything else as it is: it will judge it."""
    found = _EVERY.fullmatch(text)
    return f"{found[1]} {_UNITS[found[2]]}" if found else text


def _run(args: argparse.Namespace) -> int:
    with open_connection(args, "schedule") as conn:
        published = run_schedule(conn, args.name)
    answer(args, str(published), name=args.name, transaction_id=published)
    return 0


_VERBS: dict[str, tuple[str, Callable[[argparse.Namespace], int]]] = {
    "pause": (
        "let a schedule rest: its due times pass",
        changer("schedule", pause_schedule, "paused", "is paused"),
    ),
    "resume": (
        "let a paused schedule continue, from now",
        changer("schedule", resume_schedule, "resumed", "is not paused"),
    ),
    "remove": (
        "forget a schedule; what it published stays",
        changer("schedule", remove_schedule, "removed", "is no schedule"),
    ),
    "run": ("publish its event once more, now", _run),
}
