"""Where in the log: which partitions of a group; the earliest, the latest, an offset, a time."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from gapless.cli.parser import whole
from gapless.cli.screen import stamp

_NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One place for all partitions in range; exactly one of these is set."""

    end: str | None = None
    offset: int | None = None
    time: datetime | None = None
    transaction: UUID | None = None

    def __str__(self) -> str:
        if self.time is not None:
            return stamp(self.time)
        return self.end or str(self.offset or self.transaction)


def add_range(parser: argparse.ArgumentParser) -> None:
    """Declare the group, and which of its topics and partitions."""
    parser.add_argument("group")
    parser.add_argument("--topic", help="only this one of its topics")
    parser.add_argument("--partition", type=whole(0, 4095), metavar="P", help="only this partition")


def range_of(args: argparse.Namespace) -> dict[str, object]:
    """Return the parameters of the queries that take a range."""
    return {"group": args.group, "topic": args.topic, "partition": args.partition}


def describe(args: argparse.Namespace) -> str:
    """Name the range for people."""
    topic = f", topic {args.topic}" if args.topic else ""
    partition = f", partition {args.partition}" if args.partition is not None else ""
    return f"group {args.group}{topic}{partition}"


def moment(text: str) -> datetime:
    """Read a time in ISO 8601; one without an offset is UTC, as all that gapless prints."""
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time: write it as 2026-03-01T12:00:00Z"
        ) from None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def transaction(text: str) -> UUID:
    """Read a transaction_id."""
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a transaction_id: that is a UUID, as gapless tail --json shows it"
        ) from None


def start(text: str) -> Target:
    """Read a place in one word: earliest, latest, an offset, a time."""
    if text in ("earliest", "latest"):
        return Target(end=text)
    if _NUMBER.fullmatch(text):
        return Target(offset=int(text))
    try:
        return Target(time=moment(text))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not earliest, latest, an offset, or a time such as 2026-03-01T12:00:00Z"
        ) from None
