"""The chain of a run: three groups, one behind the other (I10).

`pay` handles the orders and publishes into `payments`, `pack` handles those and publishes into
`parcels`, `ship` handles those. What is published for a unit follows from the seed and the unit alone
(plan), so the checker knows it, too. It is known by the tag of the unit's first event: the tag of an
event that is published for it is that, and `>` and a number.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from chaos.history import Grouped, Linked, Sent, digest

SEED = "CHAOS_SEED"  # in the environment of supervisors: the seed of the run
GROUPS = (
    Grouped(group="pay"),
    Grouped(group="pack", on_failure="retry", delays_s=(0.3, 0.6)),
    Grouped(group="ship"),
)
TOPICS = ("orders", "payments", "parcels")
BELOW = 3  # partitions of the topics that handlers publish into, at first
BATCH_MAX = 500
# gapless.publish() for each event, for all of them · select gapless.publish(…) · INSERT · a trigger of
# the user's · the same at COMMIT · the first event by publish(), the others by INSERT.
WAYS = ("one", "some", "function", "insert", "trigger", "both")
LATE = "late"
MARK = ">"

_NOTHING = (0.7, 0.4)  # of the units: nothing is published for them
_EVENTS_MAX = 4
_KEYS = [f"c{number}" for number in range(12)]
_KEYS_MAX = 3
_NAMED = 0.4  # of the units: under one transaction_id for all of them, which makes them no unit
_UNDOES = 0.15  # of the units: what was published before is undone with its savepoint
_DOES = 0.12
_DEEDS = ("raise", "dead", "skip", "mend", "again", "flaky", "slow")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is published for a unit: these events, with these payloads, in this way."""

    way: str
    undoes: bool
    events: tuple[Sent, ...]
    payloads: tuple[str, ...]


def links(seed: int) -> tuple[Linked, ...]:
    """Return the links of a run's chain: batch sizes from 1 to 500, small ones as likely as large."""
    random = Random(f"{seed} chain")
    made = []
    for number, group in enumerate(GROUPS):
        ways = random.sample(WAYS, k=random.randint(3, len(WAYS)))
        if number == 1 and random.random() < 0.5:
            ways.append(LATE)  # then one unit is one COMMIT: once is enough
        into = TOPICS[number + 1] if number + 1 < len(TOPICS) else None
        made.append(
            Linked(
                group=group.group,
                topic=TOPICS[number],
                into=into,
                batch_size=round(BATCH_MAX ** random.random()),
                ways=tuple(ways) if into else (),
                seed=seed,
            )
        )
    return tuple(made)


def plan(link: Linked, unit: str) -> Plan:
    """Return what is published for the unit whose first event has this tag."""
    assert link.into is not None
    random = Random(f"{link.seed} {link.group} {unit}")
    way = random.choice(link.ways)
    undoes = random.random() < _UNDOES
    none = random.random() < _NOTHING[unit.count(MARK) % len(_NOTHING)]
    size = 0 if none else random.randint(1, _EVENTS_MAX)
    keys: list[str | None] = [*random.sample(_KEYS, k=random.randint(1, _KEYS_MAX)), None]
    named = str(UUID(int=link.seed + 1)) if random.random() < _NAMED else None
    deed = random.choice(_DEEDS) if random.random() < _DOES else ""
    events, payloads = [], []
    for number in range(size):
        does = deed if number == size - 1 else ""
        payload = {"way": way, "n": number} | ({"do": does} if does else {})
        payloads.append(json.dumps(payload))
        events.append(
            Sent(
                tag=f"{unit}{MARK}{number}",
                topic=link.into,
                key=random.choice(keys),
                digest=digest(payloads[-1]),
                does=does,
                transaction_id=named,
            )
        )
    return Plan(way, undoes, tuple(events), tuple(payloads))


def derived(of: Sequence[Linked], tag: str) -> Sent | None:
    """Return what a handler of the chain was to publish under a tag, if its unit was handled."""
    above = tag.rpartition(MARK)[0]
    link = of[above.count(MARK)] if above and above.count(MARK) < len(of) else None
    if link is None or link.into is None:
        return None
    return next((event for event in plan(link, above).events if event.tag == tag), None)


def root_of(tag: str | None) -> str:
    """Return the tag of the producer's event that a chain began with."""
    return (tag or "").split(MARK)[0]
