"""Places and points as arguments: what ops reads, with argparse's error; ranges of a group."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gapless.cli.parser import add_partition
from gapless.errors import UsageError
from gapless.ops.place import GroupPlace, Point, read_time, read_transaction

Read = TypeVar("Read")


def argument(read: Callable[[str], Read]) -> Callable[[str], Read]:
    """Return an argument type of what reads a text and raises UsageError."""

    def parse(text: str) -> Read:
        try:
            return read(text)
        except UsageError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


group_place = argument(GroupPlace.parse)
event_place = argument(GroupPlace.parse_event)
point = argument(Point.parse)
moment = argument(read_time)
transaction_id = argument(read_transaction)


def add_range(parser: argparse.ArgumentParser) -> None:
    """Declare the group, and which of its topics and partitions."""
    parser.add_argument(
        "place",
        type=group_place,
        metavar="GROUP[/TOPIC[/PARTITION]]",
        help="such as billing/orders/3",
    )
    parser.add_argument("--topic", help="only this one of its topics")
    add_partition(parser, "only this partition")


def place_of(args: argparse.Namespace) -> GroupPlace:
    """Return the place with what its options add. Raises UsageError where they disagree."""
    said: GroupPlace = args.place
    for name, option, own in (
        ("topic", args.topic, said.topic),
        ("partition", args.partition, said.partition),
    ):
        if option is not None and own is not None and option != own:
            raise UsageError(f"{said} and --{name} {option}: which of the two?")
    return replace(
        said,
        topic=args.topic if said.topic is None else said.topic,
        partition=args.partition if said.partition is None else said.partition,
    )


def in_words(place: GroupPlace) -> str:
    """Name a range for people."""
    topic = f", topic {place.topic}" if place.topic is not None else ""
    partition = f", partition {place.partition}" if place.partition is not None else ""
    return f"group {place.group}{topic}{partition}"
