"""A filter as options of a command: event types, a condition, and values for its variables."""

from __future__ import annotations

import argparse
import json
from typing import Any

from gapless.cli.declare import opt


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object that is an argument of a command."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text[:100]!r} is not a JSON object")
    return found


FILTER = (
    opt(
        "--type TYPE",
        "events of this type, in which * stands for any characters; repeat for several",
        action="append",
        dest="event_types",
    ),
    opt("--where JSONPATH", "payloads for which it holds, such as '$.total > $min'"),
    opt("--params JSON", "values for it, such as '{\"min\": 100}'", json_object),
)


def filter_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options as arguments of set_filter()."""
    return {"event_types": args.event_types, "where": args.where, "params": args.params}
