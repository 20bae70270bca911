"""I3: the offsets of a partition are 1, 2, 3, … and never change."""

from collections.abc import Iterator

from chaos.checker.facts import Facts
from chaos.checker.violation import Violation, about


def find(facts: Facts) -> Iterator[Violation]:
    for events in facts.log.values():
        expected = 1
        for event in events:
            if event.c_offset != expected:
                name = "hole" if event.c_offset > expected else "offset given twice"
                text = f"offset {expected} was to come, {event.c_offset} is there"
                yield about(event, "I3", name, text)
            expected = event.c_offset + 1
    for topic, partition, base in facts.moved_segments:
        yield Violation(
            invariant="I3",
            name="offset moved",
            text=f"the segment at {base} was changed after it was written",
            topic=topic,
            partition=partition,
            offset=base,
        )
