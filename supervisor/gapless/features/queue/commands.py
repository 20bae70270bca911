"""The `queue` command: take events of a queue group by hand, acknowledge or reject them."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, limit, opt, together
from gapless.cli.parser import number, whole
from gapless.cli.place import group_place
from gapless.cli.screen import answer, listed, remark, say
from gapless.errors import UsageError
from gapless.features.queue.ops import (
    Receipt,
    acknowledge,
    extend,
    peek,
    queue_state,
    reject,
    release,
)
from gapless.features.queue.taken import take_texts, taken_json
from gapless.ops.text import quantity, stamp

EXAMPLES = """\
Taken events are reserved for --visibility seconds; then others may have them. Receipts are for
acknowledge (handled), release (again, perhaps later), reject (a dead letter) and extend.

examples:
  gapless queue state sender
  gapless queue peek sender/mails --state FAILED
  gapless queue take sender/mails --max 10 --visibility 60 --json
  gapless queue ack sender/mails RECEIPT
  gapless queue release sender/mails RECEIPT --delay 30
  gapless queue reject sender/mails RECEIPT "bad address"
"""
_STATES = ("ENQUEUED", "PROCESSING", "PROCESSED", "FAILED")
command = Command("queue")


def _require_topic(args: Args) -> None:
    if args.place.topic is None or args.place.partition is not None:
        raise UsageError(f"{args.place}: of which topic? Write GROUP/TOPIC, such as sender/mails")


def _require_group(args: Args) -> None:
    if args.place.topic is not None:
        raise UsageError(f"{args.place}: name the group alone: all of its topics are shown")


def _receipt(args: Args) -> Receipt:
    _require_topic(args)
    of, offset = args.place, getattr(args, "offset", None)
    return Receipt(group=of.group, topic=of.topic, receipt=args.receipt, offset=offset)


_seconds = number(0, what="a number of seconds")
_TOPIC = opt("place GROUP/TOPIC", None, group_place)
_ALL = (_TOPIC, opt("receipt RECEIPT"))
_SOME = (*_ALL, opt("--offset N", "only this one of its events", whole(1)))
_HELD = together("held", _receipt, *_SOME)
_VISIBILITY = opt(
    "--visibility S",
    "others may have it in S seconds, unless it was handled (default: 60)",
    _seconds,
    default=60.0,
)


@command.verb(
    "count the events that are open, in hand, waiting, dead (default)",
    opt("place GROUP", None, group_place),
    check=_require_group,
    shows_log=True,
)
def _state(conn: Conn, args: Args) -> int:
    return listed(args, queue_state(conn, args.place.group))


@command.verb(
    "show the oldest events; takes nothing",
    opt("place GROUP[/TOPIC[/PARTITION]]", None, group_place),
    opt(
        "--state",
        "only these; may be repeated (default: all but PROCESSED)",
        dest="states",
        action="append",
        choices=_STATES,
    ),
    limit(20, "a partition", 100_000),
    check=lambda args: args.place.require_whole(),
    shows_log=True,
)
def _peek(conn: Conn, args: Args) -> int:
    states = args.states or [each for each in _STATES if each != "PROCESSED"]
    found = peek(conn, args.place, states=states, limit=args.limit)
    return listed(args, found, f"nothing of {args.place} is in that state")


@command.verb(
    "take free events, for a while",
    _TOPIC,
    opt("--max N", "at most N events (default: 1)", whole(1), default=1),
    _VISIBILITY,
    check=_require_topic,
    shows_log=True,
)
def _take(conn: Conn, args: Args) -> int:
    # A hole, which the server reports when it has no other event.
    conn.add_notice_handler(lambda notice: remark(f"{notice.message_primary}"))
    of, how = args.place, {"max_events": args.max, "visibility_s": args.visibility}
    taken = take_texts(conn, of.group, of.topic, **how)
    if args.json:
        say(f"[{', '.join(taken_json(each) for each in taken)}]")
        return 0
    return listed(args, taken, f"nothing of {of} is open")


@command.verb("say that it is handled", _HELD)
def _ack(conn: Conn, args: Args) -> int:
    events = acknowledge(conn, args.held)
    return answer(args, f"acknowledged {quantity(events, 'event')}", acknowledged=events)


@command.verb(
    "give it back: others may have it",
    _HELD,
    opt("--delay S", "in S seconds (default: 0)", _seconds, default=0.0),
    opt("--reason TEXT", "why, for people"),
)
def _release(conn: Conn, args: Args) -> int:
    events = release(conn, args.held, delay_s=args.delay, reason=args.reason)
    when = f", for others in {args.delay:g} s" if args.delay else ""
    return answer(args, f"released {quantity(events, 'event')}{when}", released=events)


@command.verb("put it into the dead letter queue", _HELD, opt("reason", "why, for people"))
def _reject(conn: Conn, args: Args) -> int:
    events = reject(conn, args.held, args.reason)
    return answer(args, f"rejected {quantity(events, 'event')}: gapless dlq list", rejected=events)


@command.verb("keep it longer", together("held", _receipt, *_ALL), _VISIBILITY)
def _extend(conn: Conn, args: Args) -> int:
    until = extend(conn, args.held, args.visibility)
    return answer(args, f"yours until {stamp(until)}", until=until)
