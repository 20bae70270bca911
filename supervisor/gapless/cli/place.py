"""Types of arguments for places, points and ages: gapless.ops reads them, argparse refuses."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from gapless.cli.declare import Arguments, opt, partition, together
from gapless.errors import UsageError
from gapless.ops.place import GroupPlace, Point, read_time, read_transaction

Read = TypeVar("Read")


def argument(read: Callable[[str], Read]) -> Callable[[str], Read]:
    """Return an argument type made of a function that reads a text and raises UsageError."""

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


def of_topics(about: str) -> Arguments:
    """Return the arguments for a group, or one of its topics; about: the help of --topic."""
    place = opt("group GROUP[/TOPIC]", None, group_place)
    return together("place", _place, place, opt("--topic", about))


def _range(args: argparse.Namespace) -> GroupPlace:
    place = _place(args)
    place.require_whole()
    return place


def _place(args: argparse.Namespace) -> GroupPlace:
    """Return the place, completed by its options. Raises UsageError if they disagree."""
    said: GroupPlace = args.group
    topic: str | None = args.topic
    number: int | None = getattr(args, "partition", None)
    for name, option, own in (("topic", topic, said.topic), ("partition", number, said.partition)):
        if option is not None and own is not None and option != own:
            raise UsageError(f"{said} and --{name} {option}: which of the two?")
    return replace(
        said,
        topic=topic if said.topic is None else said.topic,
        partition=number if said.partition is None else said.partition,
    )


_ROWS = (
    opt("group GROUP[/TOPIC[/PARTITION]]", "such as billing/orders/3", group_place),
    opt("--topic", "only this one of its topics"),
    partition(),
)
RANGE = together("place", _range, *_ROWS)
"""A group, one of its topics, or one partition, each as a whole."""
RANGE_OR_EVENT = together("place", _place, *_ROWS)
