"""The `schedule` command: events that are published again and again."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, flag, one_of, opt
from gapless.cli.parser import LongText
from gapless.cli.screen import answer, changed, listed
from gapless.features.scheduled.schedule_ops import (
    list_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_schedule,
)
from gapless.features.scheduled.schedules import Schedule, add_schedule, preview_schedule
from gapless.ops.text import stamp

EXAMPLES = """\
The database computes when a schedule is due; a supervisor publishes then (gapless run).

examples:
  gapless schedule add nightly reports --cron '0 3 * * *' --zone Europe/Berlin
  gapless schedule add pulse pulses --every 30s --missed skip
  gapless schedule
  gapless schedule pause nightly
"""
command = Command("schedule")
_ROUTE = "POST /v1/schedules/{name}/{verb} schedule"


@command.verb("list all schedules (also without a verb)", route="GET /v1/schedules schedules")
def _list(conn: Conn, args: Args) -> int:
    hint = "no schedule yet: gapless schedule add NAME TOPIC --cron '0 3 * * *'"
    return listed(args, list_schedules(conn), hint)


@command.verb(
    "add a schedule, or change the one of that name",
    opt("name", "letters, digits, dots, dashes and underscores"),
    "topic",
    one_of(
        opt("--cron TEXT", "minute hour day month weekday, or @daily"),
        opt("--every AGE", "30s, 15m, 12h, 1d, or '1 month'"),
        required=True,
    ),
    opt("--zone", "whose clock, such as Europe/Berlin (default: UTC)", default="UTC"),
    opt(
        "--missed",
        "due times that passed without a supervisor: publish one, all, or none (default: once)",
        choices=("once", "all", "skip"),
        default="once",
    ),
    opt("--payload JSON", "of each event (default: its name and due time)", LongText()),
    opt("--key", "same key, same partition, in order"),
    opt("--type TYPE", "default: the name", dest="event_type"),
    opt("--start TIME", "nothing is due before; --every counts from it", dest="starts_at"),
    flag("--dry-run", "only print the next three due times"),
    route="POST /v1/schedules/{name} addSchedule",
)
def _add(conn: Conn, args: Args) -> int:
    schedule = Schedule(**{name: each for name, each in args.given.items() if name != "dry_run"})
    if args.dry_run:
        times = preview_schedule(conn, schedule)
        said = f"schedule {args.name} would publish at {', '.join(map(stamp, times))}"
        return answer(args, said, name=args.name, topic=args.topic, next_times=times)
    due = add_schedule(conn, schedule)
    text = f"schedule {args.name} publishes into {args.topic}, next at {stamp(due)}"
    return answer(args, text, name=args.name, topic=args.topic, next_due=due)


@command.verb("let a schedule rest: its due times pass", "name", route=_ROUTE)
def _pause(conn: Conn, args: Args) -> int:
    return changed(args, pause_schedule(conn, args.name), "paused {name}", "{name} is paused")


@command.verb("let a paused schedule continue, from now", "name", route=_ROUTE)
def _resume(conn: Conn, args: Args) -> int:
    return changed(args, resume_schedule(conn, args.name), "resumed {name}", "{name} is not paused")


@command.verb("forget a schedule; published events stay", "name", route=_ROUTE)
def _remove(conn: Conn, args: Args) -> int:
    return changed(
        args, remove_schedule(conn, args.name), "removed {name}", "{name} is no schedule"
    )


@command.verb("publish its event once more, now", "name", route=_ROUTE)
def _run(conn: Conn, args: Args) -> int:
    published = run_schedule(conn, args.name)
    return answer(args, str(published), name=args.name, transaction_id=published)
