"""A filter as options: event types, a condition, and the values for its variables."""

from __future__ import annotations

import argparse
import json
from typing import Any


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--type",
        action="append",
        dest="event_types",
        metavar="TYPE",
        help="events of this type, in which * stands for any characters; repeat for several",
    )
    parser.add_argument(
        "--where", metavar="JSONPATH", help="payloads for which it holds, such as '$.total > $min'"
    )
    parser.add_argument(
        "--params", type=json_object, metavar="JSON", help="values for it, such as '{\"min\": 100}'"
    )


def filter_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return what they say, by the names of set_filter()."""
    return {"event_types": args.event_types, "where": args.where, "params": args.params}


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object that is an argument."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a JSON object")
    return found
