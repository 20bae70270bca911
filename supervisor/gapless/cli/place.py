"""Places and points as arguments: what ops reads, with argparse's error; ranges of a group."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gapless.cli.declare import Argument, opt, partition
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


RANGE = (
    opt("place GROUP[/TOPIC[/PARTITION]]", "such as billing/orders/3", group_place),
    opt("--topic", "only this one of its topics"),
    partition(),
)


def of_topics(about: str) -> tuple[Argument, Argument]:
    """Return the arguments for a group, or one of its topics; about: --topic."""
    place = opt("place GROUP[/TOPIC]", None, group_place)
    return place, opt("--topic", about)


def require_range(args: argparse.Namespace) -> None:
    """Raise UsageError unless partitions are meant, and each as a whole."""
    place_of(args).require_whole()


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
