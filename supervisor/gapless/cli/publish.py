"""The `publish` command: one event from the command line, or many from JSON lines."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from gapless import ops
from gapless.cli.context import load_all, open_connection
from gapless.cli.declare import Args, Command, Conn, flag, one_of, opt, partitions, titled
from gapless.cli.parser import whole
from gapless.cli.progress import Steps
from gapless.cli.screen import answer, remark, say
from gapless.errors import UsageError
from gapless.log.catch_up import own_xid
from gapless.log.publish import publish
from gapless.ops.load.parse import dedupe_key, deliver_at, parse_line, transaction_text
from gapless.ops.load.wait import Stored, require_waitable, wait_until_handled
from gapless.ops.text import json_text, quantity, whole_seconds
from gapless.ops.topics import ensure_as_configured

if TYPE_CHECKING:
    from gapless.settings import Loaded

EXAMPLES = """\
A line of a file is an object with payload and, if it likes, key, event_type, headers, host_id,
user_id, transaction_id, dedupe_key, deliver_at, deliver_in (seconds) and to_group. With
--payload-only or --key-field the whole line is the payload.

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


def _awaited(text: str) -> str:
    if text != _OFFSETS and not text.removeprefix("group:"):
        raise argparse.ArgumentTypeError("of which group? Write --wait group:NAME")
    if text != _OFFSETS and not text.startswith("group:"):
        raise argparse.ArgumentTypeError(f"{text!r}: write --wait, or --wait group:NAME")
    return text


_FIELDS = titled(
    "fields of the event, or of lines that do not have them",
    opt("--key", "same key, same partition, in order"),
    opt("--type TYPE", "such as order.placed", dest="event_type"),
    opt("--header NAME=VALUE", "repeat for several", action="append", default=[]),
    opt("--host-id"),
    opt("--user-id"),
    opt("--to-group GROUP", "other groups of the topic pass it"),
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
    "offsets. Does the sequencer's work if nobody does",
    _awaited,
    half=("group:", _OFFSETS),
)
command = Command("publish")


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
        opt("--at TIME", "deliver it not before that, such as 2030-01-01T09:00Z"),
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
    partitions(),
    connects=False,
)
def _publish(args: Args) -> int:
    """Publish, and say how many it were."""
    shape = _shape(args)
    if args.timeout is not None and not args.wait:
        raise UsageError("--timeout is for --wait")
    group = args.wait.removeprefix("group:") if args.wait not in (None, _OFFSETS) else None
    with contextlib.ExitStack() as stack:
        lines = _lines(args, shape, stack)
        loaded = load_all(args, {"total_partitions": args.partitions})
        conn = stack.enter_context(open_connection(args, "publish", loaded.settings))
        _find_topic(conn, args, loaded)
        if args.wait:
            require_waitable(conn, args.topic, group)
        stored = (
            _publish_one(conn, args, shape) if lines is None else _publish_lines(conn, args, lines)
        )
        if args.wait:
            sys.stdout.flush()  # what is published has its name, even if the wait is cut off
            done = wait_until_handled(conn, stored, group, timeout_s=args.timeout or _WAIT_S)
            if done:
                remark(done)
    return 0


def _shape(args: Args) -> ops.LineShape:
    """Check what belongs together, and return how an event is made."""
    if args.payload == "-" and args.file is None:
        args.payload, args.file = None, "-"
    if (args.payload is None) == (args.file is None):
        raise UsageError("give one payload, or --file FILE, or --file - for standard input")
    if args.file is None and (args.payload_only or args.key_field):
        raise UsageError("--payload-only and --key-field are for --file")
    if args.file is not None and args.dedupe_key is not None:
        raise UsageError("--dedupe-key is for one event; lines have a dedupe_key each")
    if args.partitions is not None and not args.create:
        raise UsageError("--partitions is for --create: a topic keeps the number it was made with")
    if args.key is not None and args.key_field is not None:
        raise UsageError("--key and --key-field: which of the two?")
    # A payload from the command line is a line of its own.
    alone = args.payload_only or args.payload is not None
    return ops.LineShape(payload_only=alone, key_field=args.key_field, defaults=_defaults(args))


def _defaults(args: Args) -> dict[str, Any]:
    """Return the fields that the command line sets."""
    names = ("key", "event_type", "host_id", "user_id", "to_group")
    defaults: dict[str, Any] = {name: getattr(args, name) for name in names}
    defaults["transaction_id"] = _read("--transaction-id", transaction_text, args.transaction_id)
    defaults["dedupe_key"] = _read("--dedupe-key", dedupe_key, args.dedupe_key)
    defaults["deliver_at"] = _read("--at", deliver_at, args.at)
    if args.in_ is not None and (seconds := whole_seconds(args.in_)) is None:
        raise UsageError(f"--in {args.in_!r}: a number with s, m, h or d, such as 90s or 7d")
    defaults["deliver_in"] = None if args.in_ is None else seconds
    if args.header:
        defaults["headers"] = dict(map(_header, args.header))
    return {name: value for name, value in defaults.items() if value is not None}


def _read(option: str, read: Callable[[str], Any], text: str | None) -> Any:
    """Return what an option says, None if it was not given. Raises UsageError."""
    try:
        return None if text is None else read(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--header {text!r}: write NAME=VALUE")
    return name, value


def _lines(args: Args, shape: ops.LineShape, stack: contextlib.ExitStack) -> ops.JsonLines | None:
    """Open the file; before the database, so that a wrong name costs nothing."""
    if args.file is None:
        return None
    if args.file == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed")
        return ops.JsonLines(sys.stdin.fileno(), "standard input", shape)
    descriptor = os.open(args.file, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        raise UsageError(f"{args.file}: is a folder, not a file of JSON lines")
    return ops.JsonLines(descriptor, args.file, shape)


def _find_topic(conn: Conn, args: Args, loaded: Loaded) -> None:
    if args.create:
        topic, is_new = ensure_as_configured(conn, args.topic, loaded)
        if is_new:
            remark(f"created topic {topic.name} with {quantity(topic.partitions, 'partition')}")
    elif ops.find_topic(conn, args.topic) is None:
        raise UsageError(
            f'topic "{args.topic}" does not exist: gapless topics create {args.topic}, '
            "or publish with --create --partitions N"
        )


def _publish_one(conn: Conn, args: Args, shape: ops.LineShape) -> Stored:
    try:
        event = parse_line(args.payload, shape)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise UsageError(f"the payload is {reason}; text needs quotes: '\"like this\"'") from None
    with conn.transaction():
        transaction_id = publish(conn, args.topic, event)
        xid = own_xid(conn)
    is_duplicate = getattr(transaction_id, "duplicate", False)
    scheduled = getattr(transaction_id, "scheduled_ids", ())
    answer(
        args,
        str(transaction_id),
        transaction_id=transaction_id,
        events=0 if is_duplicate else 1,
        transactions=0 if is_duplicate else 1,
        duplicate=is_duplicate,
        scheduled_ids=list(scheduled),
    )
    if scheduled:
        remark(f"it waits for its time: gapless later cancel {scheduled[0]} takes it back")
        return Stored(
            xid=None, transaction_ids=[transaction_id]
        )  # what there is of it has no offset for now
    if is_duplicate:
        remark("nothing was published: a duplicate of the event of this transaction_id")
        return Stored(xid=None, transaction_ids=[])  # nothing of it will ever be sequenced
    return Stored(xid=xid, transaction_ids=[transaction_id])


def _publish_lines(conn: Conn, args: Args, lines: ops.JsonLines) -> Stored:
    began_s = monotonic()
    try:
        with Steps(args.topic, lines.bytes_total, in_bytes=True) as steps:
            size = None if args.one_transaction else args.batch

            def progress(events: int, bytes_read: int) -> None:
                steps.show(bytes_read, events)

            done = ops.publish_lines(conn, args.topic, lines, batch_lines=size, progress=progress)
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
