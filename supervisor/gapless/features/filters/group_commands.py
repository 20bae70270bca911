"""The verb `filter` of `groups`."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, flag, opt
from gapless.cli.place import argument, of_topics
from gapless.cli.screen import answer, listed, told
from gapless.errors import UsageError
from gapless.features.filters.asked import FILTER, filter_options
from gapless.features.filters.ops import clear_filter, list_filters, set_filter
from gapless.features.filters.trial import read_spot, takes_event

EXAMPLES = """\
  gapless groups filter billing/orders --type 'order.*' --where '$.total > 5'
  gapless groups filter billing/orders --clear
  gapless groups takes billing/orders --event 3@17
"""
command = Command("groups")


def _check_filter(args: Args) -> None:
    if args.clear and any(filter_options(args).values()):
        raise UsageError("--clear and a filter: which of the two?")


@command.verb(
    "show the filter of a group; set it, from the next claim on; or clear it",
    of_topics("of this one of its topics"),
    *FILTER,
    flag("--clear", "take all events again"),
    check=_check_filter,
    route="POST /v1/groups/{group}/filter filterGroup",
)
def _filter(conn: Conn, args: Args) -> int:
    place, wanted = args.place, filter_options(args)
    if not args.clear and not any(wanted.values()):
        hint = f"{place} takes all events: gapless groups filter {place} --type TYPE"
        return listed(args, list_filters(conn, place), hint)
    done = clear_filter(conn, place) if args.clear else set_filter(conn, place, **wanted)
    takes = "takes all events" if args.clear else "takes the events that its filter keeps"
    text = f"group {done.group} of topic {done.topic} {takes}"
    return answer(args, text if done.changed else f"nothing to do: {text} already", done)


@command.verb(
    "tell whether a group takes an event; SQL conditions are not evaluated",
    of_topics("of this one of its topics"),
    opt("--event PARTITION@OFFSET", "such as 3@17", argument(read_spot), required=True),
    route="GET /v1/groups/{group}/takes takes",
)
def _takes(conn: Conn, args: Args) -> int:
    return told(args, takes_event(conn, args.place, *args.event))
