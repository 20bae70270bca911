"""I4 across a change of the number of partitions: the events of a key are handled in their order."""

from collections import defaultdict
from collections.abc import Iterator

from chaos.checker.facts import Facts
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, of_group


def find(facts: Facts) -> Iterator[Violation]:
    """A layout has one partition for a key; what an earlier layout placed comes first.

    What was set aside and tried again has lost its place, unless its group parks what is behind it.
    """
    of_key: dict[tuple[str, str], list[Placed]] = defaultdict(list)
    for (topic, _), events in facts.log.items():
        for event in events:
            if event.key is not None:
                of_key[topic, event.key].append(event)
    for (group, topic), ids in _handled(facts).items():
        for (of_topic, key), events in of_key.items():
            if of_topic == topic:
                yield from _overtaken(group, key, events, ids)


def _handled(facts: Facts) -> dict[tuple[str, str], dict[tuple[int, int], int]]:
    """Return, of each group and topic, the number of the effect at each place."""
    late = _late(facts)
    handled: dict[tuple[str, str], dict[tuple[int, int], int]] = defaultdict(dict)
    for effect in facts.effects:
        place = (effect.partition_id, effect.c_offset)
        if (effect.group_id, effect.topic, *place) not in late:
            handled[effect.group_id, effect.topic][place] = effect.id
    return handled


def _late(facts: Facts) -> set[tuple[str, str, int, int]]:
    """Return where events were set aside by groups that park nothing."""
    return {
        (*at, change.c_offset)
        for at, changes in facts.lettered.items()
        if not facts.parks(at[0])
        for change in changes
    }


def _overtaken(
    group: str, key: str, events: list[Placed], ids: dict[tuple[int, int], int]
) -> Iterator[Violation]:
    last: Placed | None = None
    for event in sorted(events, key=lambda each: (each.layout, each.c_offset)):
        place = (event.partition_id, event.c_offset)
        if place not in ids:
            continue  # dead, or not handled: others look for that
        if last is not None and ids[place] < ids[last.partition_id, last.c_offset]:
            at = (group, event.topic, event.partition_id)
            text = (
                f"{event.tag} of key {key} was handled before {last.tag} at "
                f"{last.partition_id}@{last.c_offset}, layout {last.layout}"
            )
            yield of_group(at, event.c_offset, "I4", "key overtaken", text, event.tag)
        last = event
