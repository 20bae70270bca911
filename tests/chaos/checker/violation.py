"""What the checker found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.checker.attempts import Attempt
    from chaos.checker.rows import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that must not be. name: the kind of it; tests and mutants ask for it by name.

    where: what it is about, as far as it is known: a partition of a topic, for a group, an offset,
    an event's tag, an attempt. history: the shortest history that shows it, in the order of time.
    """

    invariant: str
    name: str
    text: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    tag: str | None = None
    attempt: str | None = None
    history: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = "/".join(str(x) for x in (self.group, self.topic, self.partition) if x is not None)
        place = (
            f" {where}" + (f"@{self.offset}" if self.offset is not None else "") if where else ""
        )
        return f"{self.invariant} {self.name}{place}: {self.text}"


def of_group(
    at: tuple[str, str, int],
    offset: int | None,
    invariant: str,
    name: str,
    text: str,
    tag: str | None = None,
) -> Violation:
    """Return what is wrong at a place of a group: its topic, partition and offset."""
    group, topic, partition = at
    return Violation(
        invariant=invariant,
        name=name,
        text=text,
        group=group,
        topic=topic,
        partition=partition,
        offset=offset,
        tag=tag,
    )


def about(
    event: Placed, invariant: str, name: str, text: str, attempt: Attempt | None = None
) -> Violation:
    """Return what is wrong with one event of the log."""
    return Violation(
        invariant=invariant,
        name=name,
        text=f"{event.tag}: {text}",
        topic=event.topic,
        partition=event.partition_id,
        offset=event.c_offset,
        tag=event.tag,
        attempt=attempt.invoke.attempt if attempt else None,
    )
