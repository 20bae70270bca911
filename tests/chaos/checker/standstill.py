"""I8: after the faults are over nothing is left to do, and nobody stands in the way."""

from collections.abc import Iterator

from chaos.checker.facts import Facts
from chaos.checker.violation import Violation


def find(facts: Facts) -> Iterator[Violation]:
    for cursor in facts.cursors:
        if cursor.next_offset <= cursor.last_offset:
            why = f" ({cursor.error})" if cursor.error else ""
            yield Violation(
                invariant="I8",
                name="not delivered",
                text=f"offsets up to {cursor.last_offset} wait to be handled{why}",
                group=cursor.group_id,
                topic=cursor.topic,
                partition=cursor.partition_id,
                offset=cursor.next_offset,
            )
        elif cursor.next_offset > cursor.last_offset + 1:
            yield Violation(
                invariant="I3",
                name="beyond the end",
                text=f"the group is past the log, which ends at {cursor.last_offset}",
                group=cursor.group_id,
                topic=cursor.topic,
                partition=cursor.partition_id,
                offset=cursor.next_offset,
            )
    for session in facts.idle_in_transaction:
        yield Violation(invariant="I8", name="idle in transaction", text=session)
