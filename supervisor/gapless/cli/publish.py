"""The `publish` command: one event from the command line, or many from JSON lines."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any

from gapless.cli.context import load_all, open_connection
from gapless.cli.declare import TOTAL, Args, Command, Conn, flag, one_of, opt, titled
from gapless.cli.parser import whole
from gapless.cli.progress import Steps, is_quiet
from gapless.cli.screen import answer, remark, say
from gapless.errors import UsageError
from gapless.features.load.lines import JsonLines
from gapless.features.load.parse import LineShape, dedupe_key, deliver_at, transaction_text
from gapless.features.load.publish import publish_lines, publish_text
from gapless.features.load.wait import Stored, require_waitable, wait_until_handled
from gapless.log.topics import find_topic, missing
from gapless.ops.text import json_text, quantity, whole_seconds
from gapless.ops.topics import ensure_as_configured

EXAMPLES = """\
A line of a file is an object with payload and, if it likes, key, event_type, headers, host_id,
user_id, transaction_id, dedupe_key, deliver_at, deliver_in (seconds), to_group and
to_subscription. With --payload-only or --key-field the whole line is the payload.

examples:
  gapless publish orders '{"total": 5}' --key AA --type order.placed
  gapless publish orders '{"total": 5}' --dedupe-key order-17
  gapless publish mails '{"to": "a"}' --in 1h
  gapless publish mails '{"to": "a"}' --at 2030-01-01T09:00Z
  gapless publish orders '{"resend": 17}' --to-group billing
  gapless publish orders --file events.jsonl
  gapless publish orders '{"total": 5}' --wait group:billing --timeout 30
  producer | gapless publish orders - --key-field customer
"""
_WAIT_S = 60
_OFFSETS = "offsets"
_READ = {
    "transaction_id": ("--transaction-id", transaction_text),
    "dedupe_key": ("--dedupe-key", dedupe_key),
    "deliver_at": ("--at", deliver_at),
}
command = Command("publish")


def _awaited(text: str) -> str:
    if text != _OFFSETS and not text.removeprefix("group:"):
        raise argparse.ArgumentTypeError("of which group? Write --wait group:NAME")
    if text != _OFFSETS and not text.startswith("group:"):
        raise argparse.ArgumentTypeError(f"{text!r}: write --wait, or --wait group:NAME")
    return text


def _defaults(args: Args) -> dict[str, Any]:
    """Return the fields that the command line sets."""
    names = ("key", "event_type", "host_id", "user_id", "to_group", "to_subscription")
    said: dict[str, Any] = {name: getattr(args, name) for name in names}
    for name, (option, read) in _READ.items():
        text = getattr(args, name)
        try:
            said[name] = None if text is None else read(text)
        except ValueError as error:
            raise UsageError(f"{option}: {error}") from None
    said["deliver_in"] = None if args.in_ is None else whole_seconds(args.in_)
    if args.in_ is not None and said["deliver_in"] is None:
        raise UsageError(f"--in {args.in_!r}: a number with s, m, h or d, such as 90s or 7d")
    said["headers"] = dict(map(_header, args.header)) or None
    return {name: value for name, value in said.items() if value is not None}


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--header {text!r}: write NAME=VALUE")
    return name, value


def _check(args: Args) -> None:
    """Check that the arguments fit together."""
    if args.payload == "-" and args.file is None:
        args.payload, args.file = None, "-"
    if (args.payload is None) == (args.file is None):
        raise UsageError("give one payload, or --file FILE, or --file - for standard input")
    if args.file is None and (args.payload_only or args.key_field):
        raise UsageError("--payload-only and --key-field are for --file")
    if args.file is not None and args.dedupe_key is not None:
        raise UsageError("--dedupe-key is for one event; lines have a dedupe_key each")
    if args.total_partitions is not None and not args.create:
        raise UsageError("--partitions is for --create: a topic keeps the number it was made with")
    if args.key is not None and args.key_field is not None:
        raise UsageError("--key and --key-field: which of the two?")
    args.defaults = _defaults(args)
    if args.timeout is not None and not args.wait:
        raise UsageError("--timeout is for --wait")


_FIELDS = titled(
    "fields of the event, or of lines that do not have them",
    opt("--key", "same key, same partition, in order"),
    opt("--type TYPE", "such as order.placed", dest="event_type"),
    opt("--header NAME=VALUE", "repeat for several", action="append", default=[]),
    opt("--host-id"),
    opt("--user-id"),
    opt("--to-group GROUP", "other groups of the topic pass it"),
    opt("--to-subscription NAME", "with --to-group: other subscriptions of it pass it"),
    opt("--transaction-id UUID", "makes a unit of its own"),
)
_WITH_FILE = titled(
    "with --file",
    flag("--payload-only", "the whole line is the payload of an event"),
    opt("--key-field NAME", "so it is, and this field of it is the key"),
    one_of(
        opt(
            "--batch N",
            "lines in one transaction (default: 1000); neighbours with the same "
            "transaction_id stay together",
            whole(1, 1_000_000),
            default=1000,
        ),
        flag("--one-transaction", "all lines in one transaction, or none"),
    ),
)
_WAIT = opt(
    "--wait group:NAME",
    "return when that group has handled the events; without a group, when they have "
    "offsets. Does the sequencer's work if no supervisor does",
    _awaited,
    half=("group:", _OFFSETS),
)


@command.main(
    "topic",
    opt("payload", "the JSON text of one event; - is --file -", nargs="?"),
    opt("--file FILE", "JSON lines; - is standard input"),
    _FIELDS,
    opt(
        "--dedupe-key KEY",
        "publish nothing if the topic had an event with it within its dedupe window; the "
        "lines of a file have their own",
    ),
    one_of(
        opt(
            "--at TIME", "deliver it not before that, such as 2030-01-01T09:00Z", dest="deliver_at"
        ),
        opt("--in AGE", "deliver it so much later: 90s, 15m, 12h, 7d", dest="in_"),
    ),
    _WITH_FILE,
    _WAIT,
    opt(
        "--timeout S",
        f"with --wait: fail after S seconds (default: {_WAIT_S}); the events stay published",
        whole(1, 86_400),
    ),
    flag("--create", "create the topic if it is missing"),
    TOTAL,
    check=_check,
    connects=False,
)
def _publish(args: Args) -> int:
    """Publish, and say how many it were."""
    # A payload from the command line is a line of its own.
    alone = args.payload_only or args.payload is not None
    shape = LineShape(payload_only=alone, key_field=args.key_field, defaults=args.defaults)
    group = args.wait.removeprefix("group:") if args.wait not in (None, _OFFSETS) else None
    with _lines(args, shape) as lines:  # a wrong name costs no connection
        args.loaded = load_all(args, "total_partitions")
        with open_connection(args.loaded.settings, "publish") as conn:
            _find_topic(conn, args)
            if args.wait:
                require_waitable(conn, args.topic, group)
            stored = _one(conn, args, shape) if lines is None else _all(conn, args, lines)
            if args.wait:
                sys.stdout.flush()  # the names of the events are out, even if the wait is cut off
                if done := _wait(conn, args, stored, group):
                    remark(done)
            else:
                from gapless.status.unsequenced import find_unsequenced  # noqa: PLC0415 - slow

                if waits := find_unsequenced(conn):
                    remark(waits)
    return 0


def _wait(conn: Conn, args: Args, stored: Stored, group: str | None) -> str:
    total = len(stored.transaction_ids) if group is not None else None
    advice = "; the events stay published"
    with Steps("wait", total, "transaction", advice, is_quiet=is_quiet(args)) as steps:
        timeout_s = args.timeout or _WAIT_S
        return wait_until_handled(conn, stored, group, timeout_s=timeout_s, tell=steps.show)


def _lines(args: Args, shape: LineShape) -> AbstractContextManager[JsonLines | None]:
    if args.file is None:
        return nullcontext()
    if args.file != "-":
        return JsonLines.opened(args.file, shape)
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    return nullcontext(JsonLines(sys.stdin.fileno(), "standard input", shape))


def _find_topic(conn: Conn, args: Args) -> None:
    if args.create:
        topic, is_new = ensure_as_configured(conn, args.topic, args.loaded)
        if is_new:
            remark(f"created topic {topic.name} with {quantity(topic.partitions, 'partition')}")
    elif find_topic(conn, args.topic) is None:
        raise UsageError(f"{missing(conn, args.topic)}, or publish with --create --partitions N")


def _one(conn: Conn, args: Args, shape: LineShape) -> Stored:
    done, stored = publish_text(conn, args.topic, args.payload, shape)
    answer(args, str(done.transaction_id), done)
    if done.scheduled_ids:
        taken_back = f"gapless later cancel {done.scheduled_ids[0]} takes it back"
        remark(f"it waits for its time: {taken_back}")
    elif done.duplicate:
        remark("nothing was published: a duplicate of the event of this transaction_id")
    return stored


def _all(conn: Conn, args: Args, lines: JsonLines) -> Stored:
    began_s = monotonic()
    try:
        total, quiet = lines.bytes_total, is_quiet(args)
        with Steps(args.topic, total, "event", in_bytes=True, is_quiet=quiet) as steps:
            size = None if args.one_transaction else args.batch

            def progress(events: int, bytes_read: int) -> None:
                steps.show(bytes_read, events)

            done = publish_lines(conn, args.topic, lines, batch_lines=size, progress=progress)
    except KeyboardInterrupt as stop:
        for text in getattr(stop, "__notes__", ()):
            remark(text)
        raise
    if args.json:
        say(json_text({"events": done.events, "transactions": done.transactions}))
    per_s = done.events / max(monotonic() - began_s, 0.001)
    remark(
        f"published {quantity(done.events, 'event')} in "
        f"{quantity(done.transactions, 'transaction')}, "
        f"{per_s:,.0f}/s"
        + (f"; {quantity(done.duplicates, 'duplicate')} left out" if done.duplicates else "")
    )
    return Stored(xid=done.xid, transaction_ids=done.transaction_ids)
