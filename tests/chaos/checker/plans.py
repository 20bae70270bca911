"""P1: in the end every partition is promised to a member, as many to each as to any other."""

from collections.abc import Iterator
from itertools import groupby

from chaos.checker.facts import Facts
from chaos.checker.violation import Violation


def find(facts: Facts) -> Iterator[Violation]:
    for (group, topic), run in groupby(facts.targets, key=lambda each: (each.group_id, each.topic)):
        targets = list(run)
        if any(target.capacity is not None for target in targets):
            continue
        counts = [target.partitions for target in targets]
        partitions = sum(
            1 for cursor in facts.cursors if (cursor.group_id, cursor.topic) == (group, topic)
        )
        text = ", ".join(f"{target.name}: {target.partitions}" for target in targets)
        if sum(counts) != partitions:
            yield Violation(
                invariant="P1",
                name="unserved",
                text=f"{sum(counts)} of {partitions} partitions are promised to a member: {text}",
                group=group,
                topic=topic,
            )
        elif max(counts) - min(counts) > 1:
            yield Violation(invariant="P1", name="unbalanced", text=text, group=group, topic=topic)
