"""Other queues, used as their documentation says: each fills a queue and empties it.

Each is a module with create(dsn), publish(…), and DRAINS; they are the dependency group `bench`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from benchmarks.crew import Cue

NAMES = ("procrastinate", "pgqueuer", "pgmq")
PAYLOAD = {"pad": "x" * 290}

# dsn, events, events a batch, the cue to begin; returns the number of events
Work = Callable[[str, int, int, Cue], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A queue: `create` makes its tables in an empty database.

    drains: ways to empty it, by name; each decodes the payload, or receives it decoded.
    """

    create: Callable[[str], None]
    publish: Work
    drains: Mapping[str, Work]


def find(name: str) -> Rival | None:
    """Return a rival, or None if it is not installed."""
    try:
        module = import_module(f"benchmarks.rivals.{name}")
    except ImportError:
        return None
    return Rival(create=module.create, publish=module.publish, drains=module.DRAINS)
