"""Where in the log: a place, GROUP/TOPIC/PARTITION@OFFSET or less; the earliest, a time, ...

People copy places from all that gapless prints, so what is printed has one form, `spell`, and what
is read may also have a slash in place of the @.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from gapless.cli.parser import whole
from gapless.errors import UsageError
from gapless.ops.text import stamp

_NUMBER = re.compile("[0-9]{1,18}")
_PLACE = re.compile(r"([^/@]+)(?:/([^/@]+)(?:/([0-9]{1,9})(?:[/@]([0-9]{1,18}))?)?)?")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A group, a topic of it, a partition, an offset: each needs the one before."""

    group: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        parts = [self.group, self.topic, self.partition]
        place = "/".join(str(part) for part in parts if part is not None)
        return place if self.offset is None else f"{place}@{self.offset}"


def spell(group: str, topic: str, partition: int, offset: int) -> str:
    """Write the place of an event or a unit."""
    return str(Place(group=group, topic=topic, partition=partition, offset=offset))


def place(text: str) -> Place:
    """Read GROUP[/TOPIC[/PARTITION[@OFFSET]]]; a slash before the offset is taken as well."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not GROUP, GROUP/TOPIC, GROUP/TOPIC/PARTITION or a place such as "
            "billing/orders/3@17"
        )
    numbers = [None if number is None else int(number) for number in found.groups()[2:]]
    return Place(group=found[1], topic=found[2], partition=numbers[0], offset=numbers[1])


def event_place(text: str) -> Place:
    """Read GROUP/TOPIC/PARTITION@OFFSET, all of it."""
    found = _PLACE.fullmatch(text)
    if found is None or found[4] is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not GROUP/TOPIC/PARTITION@OFFSET, such as billing/orders/3@17"
        )
    return place(text)


def add_range(parser: argparse.ArgumentParser) -> None:
    """Declare the group, and which of its topics and partitions."""
    parser.add_argument(
        "place", type=place, metavar="GROUP[/TOPIC[/PARTITION]]", help="such as billing/orders/3"
    )
    parser.add_argument("--topic", help="only this one of its topics")
    parser.add_argument("--partition", type=whole(0, 4095), metavar="P", help="only this partition")


def range_of(args: argparse.Namespace) -> dict[str, object]:
    """Return the parameters of the queries that take a range. Raises UsageError."""
    said: Place = args.place
    for name, option, own in (
        ("topic", args.topic, said.topic),
        ("partition", args.partition, said.partition),
    ):
        if option is not None and own is not None and option != own:
            raise UsageError(f"{said} and --{name} {option}: which of the two?")
    return {
        "group": said.group,
        "topic": args.topic if said.topic is None else said.topic,
        "partition": args.partition if said.partition is None else said.partition,
    }


def refuse_offset(args: argparse.Namespace) -> None:
    """Raise UsageError for a place with an offset: what rests is a partition."""
    if args.place.offset is not None:
        whole_one = replace(args.place, offset=None)
        raise UsageError(f"{args.place} is one event: a partition rests as a whole, {whole_one}")


def describe(args: argparse.Namespace) -> str:
    """Name the range for people."""
    where = range_of(args)
    topic = f", topic {where['topic']}" if where["topic"] is not None else ""
    partition = f", partition {where['partition']}" if where["partition"] is not None else ""
    return f"group {where['group']}{topic}{partition}"


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
