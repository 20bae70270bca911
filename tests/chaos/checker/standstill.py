"""I8: after the faults are over nothing is left to do, and nobody stands in the way."""

from collections.abc import Iterator

from chaos.checker.facts import Facts
from chaos.checker.violation import Violation, of_group


def find(facts: Facts) -> Iterator[Violation]:
    for cursor in facts.cursors:
        at = (cursor.group_id, cursor.topic, cursor.partition_id)
        if cursor.next_offset <= cursor.last_offset:
            why = f" ({cursor.error})" if cursor.error else ""
            text = f"offsets up to {cursor.last_offset} wait to be handled{why}"
            yield of_group(at, cursor.next_offset, "I8", "not delivered", text)
        elif cursor.next_offset > cursor.last_offset + 1:
            text = f"the group is past the log, which ends at {cursor.last_offset}"
            yield of_group(at, cursor.next_offset, "I3", "beyond the end", text)
    for session in facts.idle_in_transaction:
        yield Violation(invariant="I8", name="idle in transaction", text=session)
