"""I7 (and S3 to S7 of the lease protocol): one owner at a time commits, and epochs only grow."""

from collections.abc import Iterator
from uuid import UUID

from chaos.checker.facts import At, Facts
from chaos.checker.rows import Leased, Moved
from chaos.checker.violation import Violation, of_group


def find(facts: Facts) -> Iterator[Violation]:
    for at, changes in facts.leases.items():
        yield from _leases(at, changes)
    for at, moves in facts.moves.items():
        taken = {
            (change.epoch, change.token): change
            for change in facts.leases.get(at, [])
            if change.epoch != change.old_epoch
        }
        yield from _fences(at, moves, taken)
        yield from _batches(at, moves)
        yield from _effects(facts, at)


def _leases(at: At, changes: list[Leased]) -> Iterator[Violation]:
    epochs: dict[int, UUID | None] = {}
    for change in changes:
        if change.epoch < change.old_epoch:
            yield _about(at, "epoch fell", f"lease epoch {change.old_epoch} -> {change.epoch}")
        if change.epoch == change.old_epoch:
            continue
        if change.epoch in epochs:
            yield _about(at, "epoch given twice", f"lease epoch {change.epoch} (S4)")
        epochs[change.epoch] = change.token
        if change.owner != change.target:
            yield _about(at, "taken by another", f"epoch {change.epoch}: not the target (S7)")
        robbed = change.old_owner not in (None, change.owner) and change.old_owner_lives
        if robbed:
            text = f"epoch {change.epoch}: its owner had neither released nor been evicted (S7)"
            yield _about(at, "taken from the living", text)


def _fences(
    at: At, moves: list[Moved], taken: dict[tuple[int, UUID | None], Leased]
) -> Iterator[Violation]:
    """The fence row: its epoch never falls (S4), and is one that a lease gave out (S5)."""
    for move in moves:
        if move.made:
            continue
        if move.epoch < move.old_epoch:
            yield _about(at, "epoch fell", f"fence epoch {move.old_epoch} -> {move.epoch} (S4)")
        if not move.is_install or move.token is None:  # taken away: nobody holds it (retire.sql)
            continue
        if move.epoch == move.old_epoch:
            yield _about(at, "epoch given twice", f"fence epoch {move.epoch} changed hands (S4)")
        lease = taken.get((move.epoch, move.token))
        if lease is None:
            yield _about(at, "unleased fence", f"no lease gave out epoch {move.epoch} (S5)")
        elif lease.worker_pid is not None and lease.worker_pid != move.backend_pid:
            yield _about(at, "unleased fence", f"epoch {move.epoch} put in by another session (S3)")


def _batches(at: At, moves: list[Moved]) -> Iterator[Violation]:
    """A batch is committed by the session that put in the fence which stands (S3), or by a task.

    A driver puts the fence in, and its Spark tasks commit, under the epoch that they were given.
    """
    owner: Moved | None = None
    for move in moves:
        if move.is_install:
            owner = move
        if not move.is_batch:
            continue
        if owner is None:
            text = (
                f"session {move.backend_pid} moved the offset to {move.next_offset} without a fence"
            )
            yield _about(at, "commit by a former owner", text, move.old_offset)
        elif move.task_epoch is not None and move.task_epoch != owner.epoch:
            text = (
                f"a task of epoch {move.task_epoch} moved the offset to {move.next_offset}; the "
                f"fence is of epoch {owner.epoch}"
            )
            yield _about(at, "commit by a former owner", text, move.old_offset)
        elif move.task_epoch is None and move.backend_pid != owner.backend_pid:
            text = (
                f"session {move.backend_pid} moved the offset to {move.next_offset}; epoch "
                f"{owner.epoch} is that of session {owner.backend_pid}"
            )
            yield _about(at, "commit by a former owner", text, move.old_offset)


def _effects(facts: Facts, at: At) -> Iterator[Violation]:
    """Effects are written under epochs that never fall, one session (or driver) an epoch."""
    highest = -1
    workers: dict[int, tuple[str, int]] = {}
    for effect in facts.effects_at.get(at, []):
        if effect.epoch is None or (at, effect.c_offset, effect.xid) in facts.settled:
            continue
        if effect.epoch < highest:
            text = f"effect {effect.id} under epoch {effect.epoch}, {highest} had begun"
            yield _about(at, "epoch fell", text, effect.c_offset)
        highest = max(highest, effect.epoch)
        owner = workers.setdefault(effect.epoch, effect.worker)
        if owner != effect.worker or effect.task_epoch not in (None, effect.epoch):
            both = " and ".join(f"{what} {number}" for what, number in (owner, effect.worker))
            text = f"{both} both work under epoch {effect.epoch}"
            yield _about(at, "two owners", text, effect.c_offset)


def _about(at: At, name: str, text: str, offset: int | None = None) -> Violation:
    return of_group(at, offset, "I7", name, text)
