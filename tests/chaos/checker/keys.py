"""I4 across a change of the number of partitions: the events of a key are handled in their order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chaos.checker.facts import Facts
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation


def find(facts: Facts) -> Iterator[Violation]:
    """A layout has one partition for a key; what an earlier layout placed comes first."""
    of_key: dict[tuple[str, str], list[Placed]] = defaultdict(list)
    for (topic, _), events in facts.log.items():
        for event in events:
            if event.key is not None:
                of_key[topic, event.key].append(event)
    handled: dict[tuple[str, str], dict[tuple[int, int], int]] = defaultdict(dict)
    for effect in facts.effects:
        handled[effect.group_id, effect.topic][effect.partition_id, effect.c_offset] = effect.id
    for (group, topic), ids in handled.items():
        for (of_topic, key), events in of_key.items():
            if of_topic == topic:
                yield from _overtaken(group, key, events, ids)


def _overtaken(
    group: str, key: str, events: list[Placed], ids: dict[tuple[int, int], int]
) -> Iterator[Violation]:
    last: Placed | None = None
    for event in sorted(events, key=lambda each: (each.layout, each.c_offset)):
        place = (event.partition_id, event.c_offset)
        if place not in ids:
            continue  # dead, or not handled: others look for that
        if last is not None and ids[place] < ids[last.partition_id, last.c_offset]:
            yield Violation(
                invariant="I4",
                name="key overtaken",
                text=f"{event.tag} of key {key} was handled before {last.tag} at "
                f"{last.partition_id}@{last.c_offset}, layout {last.layout}",
                group=group,
                topic=event.topic,
                partition=event.partition_id,
                offset=event.c_offset,
                tag=event.tag,
            )
        last = event
