"""The faults of the network: what the proxy can do to a machine's connections."""

from collections.abc import Iterator

from chaos.arena import EATEN_MAX, PRODUCERS_LINE, SHORT_S, Arena, fault
from chaos.proxy import Mode


@fault
def freeze(arena: Arena) -> Iterator[float]:
    """Nothing arrives for a while, and then all of it does."""
    yield from _line(arena, "freeze", arena.lasting())


@fault
def slow(arena: Arena) -> Iterator[float]:
    yield from _line(arena, "slow", arena.random.uniform(0.5, 3.0))


@fault
def cut(arena: Arena) -> Iterator[float]:
    """The machine is gone without a FIN; when it is back, its connections are not."""
    yield from _line(arena, "cut", arena.lasting())


@fault
def half_open(arena: Arena) -> Iterator[float]:
    """The server hears the machine, the machine no answer."""
    yield from _line(arena, "deaf", arena.lasting())


@fault
def refuse(arena: Arena) -> Iterator[float]:
    yield from _line(arena, "refuse", arena.random.uniform(*SHORT_S))


@fault
def reset(arena: Arena) -> Iterator[float]:
    """RST on all connections of a machine; new ones are welcome."""
    line = _pick(arena)
    arena.note("reset", line)
    arena.scene.proxy.order(line, reset=True)
    yield 0


@fault
def lose_commit_answers(arena: Arena) -> Iterator[float]:
    """The answers to the next few COMMITs of the producers' machine and another's are lost, and so is the connection."""
    lines = {PRODUCERS_LINE, _pick(arena)}
    number = arena.random.randint(1, EATEN_MAX)
    arena.note("lose_commit_answers", sorted(lines))
    before = sum(map(arena.scene.proxy.eaten, lines))
    for line in lines:
        arena.scene.proxy.order(line, eat=number)
    yield 1.0
    for line in lines:
        arena.scene.proxy.order(line, eat=0)
    arena.eaten += sum(map(arena.scene.proxy.eaten, lines)) - before
    arena.note_end("lose_commit_answers", sorted(lines))


@fault
def swizzle(arena: Arena) -> Iterator[float]:
    """Clog all machines one after the other, and unclog them in another order (FoundationDB)."""
    lines = [*{process.line for process in arena.scene.supervisors}, PRODUCERS_LINE]
    free = [line for line in lines if line not in arena.harmed]
    arena.harmed.update(free)
    arena.note("swizzle", free)
    for line in arena.random.sample(free, k=len(free)):
        arena.scene.proxy.mode(line, "freeze")
        yield arena.random.uniform(0, 0.3)
    for line in arena.random.sample(free, k=len(free)):
        yield arena.random.uniform(0, 0.3)
        arena.scene.proxy.mode(line, "pass")
    arena.harmed.difference_update(free)
    arena.note_end("swizzle", free)


def _line(arena: Arena, mode: Mode, seconds: float) -> Iterator[float]:
    line = _pick(arena)
    if line in arena.harmed:
        return
    arena.harmed.add(line)
    name = {"deaf": "half_open"}.get(mode, mode)
    arena.note(name, line)
    arena.scene.proxy.mode(line, mode)
    yield seconds
    arena.scene.proxy.mode(line, "pass")
    arena.harmed.discard(line)
    arena.note_end(name, line)


def _pick(arena: Arena) -> int:
    lines = [process.line for process in arena.scene.supervisors]
    return arena.random.choice([*lines, PRODUCERS_LINE])
