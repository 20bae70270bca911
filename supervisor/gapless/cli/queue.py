"""The `queue` command: take events of a queue group by hand, and say what became of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gapless.cli.context import open_connection, show_found
from gapless.cli.parser import Parser, add_limit, add_verb, whole
from gapless.cli.place import argument, group_place
from gapless.cli.screen import answer, remark, say, show
from gapless.errors import UsageError
from gapless.ops.queue import (
    QueueJob,
    QueuePartition,
    Receipt,
    TakenEvent,
    acknowledge,
    extend,
    peek,
    queue_state,
    reject,
    release,
)
from gapless.ops.taken import take_texts, taken_json
from gapless.ops.text import quantity, stamp

if TYPE_CHECKING:
    from gapless.ops.place import GroupPlace

EXAMPLES = """\
What is taken is reserved for --visibility seconds; then others may have it. Receipts are for
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


def _read_seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number of seconds") from None


_seconds = argument(_read_seconds)


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("state")
    about = "how many are open, in hand, waiting, dead (default)"
    state = add_verb(verbs, "state", _state, about)
    state.add_argument("place", type=group_place, metavar="GROUP")
    peeking = add_verb(verbs, "peek", _peek, "show the oldest events; takes nothing")
    peeking.add_argument("place", type=group_place, metavar="GROUP[/TOPIC[/PARTITION]]")
    peeking.add_argument(
        "--state",
        dest="states",
        action="append",
        choices=_STATES,
        help="only these; may be repeated (default: all but PROCESSED)",
    )
    add_limit(peeking, 20, "a partition", 100_000)
    taking = add_verb(verbs, "take", _take, "take events that nobody has, for a while")
    taking.add_argument("place", type=group_place, metavar="GROUP/TOPIC")
    taking.add_argument(
        "--max", type=whole(1), default=1, metavar="N", help="at most N events (default: 1)"
    )
    _add_visibility(taking)
    _add_receipt(verbs, "ack", "say that it is handled", _ack)
    releasing = _add_receipt(verbs, "release", "give it back: others may have it", _release)
    releasing.add_argument(
        "--delay", type=_seconds, default=0.0, metavar="S", help="in S seconds (default: 0)"
    )
    releasing.add_argument("--reason", metavar="TEXT", help="why, for people")
    rejecting = _add_receipt(verbs, "reject", "put it into the dead letter queue", _reject)
    rejecting.add_argument("reason", help="why, for people")
    _add_visibility(_add_receipt(verbs, "extend", "keep it longer", _extend, offset=False))


def _add_visibility(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--visibility",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="others may have it in S seconds, unless it was handled (default: 60)",
    )


def _add_receipt(
    verbs: argparse._SubParsersAction[Parser],
    name: str,
    summary: str,
    act: Callable[[argparse.Namespace], int],
    *,
    offset: bool = True,
) -> Parser:
    parser = add_verb(verbs, name, act, summary)
    parser.add_argument("place", type=group_place, metavar="GROUP/TOPIC")
    parser.add_argument("receipt", metavar="RECEIPT")
    if offset:
        parser.add_argument(
            "--offset", type=whole(1), metavar="N", help="only this event of what it holds"
        )
    return parser


def _topic(args: argparse.Namespace) -> tuple[str, str]:
    place: GroupPlace = args.place
    if place.topic is None or place.partition is not None:
        raise UsageError(f"{place}: of which topic? Write GROUP/TOPIC, such as sender/mails")
    return place.group, place.topic


def _state(args: argparse.Namespace) -> int:
    if args.place.topic is not None:
        raise UsageError(f"{args.place}: name the group alone: all of its topics are shown")
    find = partial(queue_state, group=args.place.group)
    return show_found(args, "queue", QueuePartition, find)


def _peek(args: argparse.Namespace) -> int:
    args.place.require_whole()
    states = args.states or [each for each in _STATES if each != "PROCESSED"]
    find = partial(peek, place=args.place, states=states, limit=args.limit)
    empty = f"nothing of {args.place} is in that state"
    return show_found(args, "queue", QueueJob, find, empty)


def _take(args: argparse.Namespace) -> int:
    group, topic = _topic(args)
    most, visibility_s = args.max, args.visibility

    with open_connection(args, "queue") as conn:
        # A hole, of which the server speaks when nothing else is there.
        conn.add_notice_handler(lambda notice: remark(f"{notice.message_primary}"))
        taken = take_texts(conn, group, topic, max_events=most, visibility_s=visibility_s)
    if args.json:
        say(f"[{', '.join(taken_json(each) for each in taken)}]")
    else:
        show(TakenEvent, taken, as_json=False, empty=f"nothing of {args.place} is open")
    return 0


def _held(args: argparse.Namespace) -> Receipt:
    group, topic = _topic(args)
    offset = getattr(args, "offset", None)
    return Receipt(group=group, topic=topic, receipt=args.receipt, offset=offset)


def _ack(args: argparse.Namespace) -> int:
    held = _held(args)
    with open_connection(args, "queue") as conn:
        events = acknowledge(conn, held)
    answer(args, f"acknowledged {quantity(events, 'event')}", acknowledged=events)
    return 0


def _release(args: argparse.Namespace) -> int:
    held = _held(args)
    with open_connection(args, "queue") as conn:
        events = release(conn, held, delay_s=args.delay, reason=args.reason)
    when = f", for others in {args.delay:g} s" if args.delay else ""
    answer(args, f"released {quantity(events, 'event')}{when}", released=events)
    return 0


def _reject(args: argparse.Namespace) -> int:
    held = _held(args)
    with open_connection(args, "queue") as conn:
        events = reject(conn, held, args.reason)
    answer(args, f"rejected {quantity(events, 'event')}: gapless dlq list", rejected=events)
    return 0


def _extend(args: argparse.Namespace) -> int:
    held = _held(args)
    with open_connection(args, "queue") as conn:
        until = extend(conn, held, args.visibility)
    answer(args, f"yours until {stamp(until)}", until=until)
    return 0
