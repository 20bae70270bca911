"""A figure: values of ours and of the baseline, and whether they meet the target (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal, TypeVar

T = TypeVar("T")

NOISE_MAX = 1.1
NOISE = ": noise"  # ends a figure's name, behind the name that it shares with neighbours
ITSELF = "itself, every other turn"
# Names of baselines that are no other design: ours itself, or nothing at all.
NO_RIVALS = {
    ITSELF,
    "its own start",
    "nothing finished above it",
    "100000 open",
    "one partition",
    "nobody connected",
    "published",
    "the same in jsonpath",
    "select 1",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on a figure: on ours/baseline ("ratio"), or on our median ("value")."""

    of: Literal["ratio", "value"]
    at_least: float | None = None
    at_most: float | None = None

    def met(self, value: float) -> bool:
        low = self.at_least is None or value >= self.at_least
        return low and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        limits = (("≥", self.at_least), ("≤", self.at_most))
        bounds = [f"{sign} {_short(limit)}" for sign, limit in limits if limit is not None]
        return " ".join(f"{bound}x" if self.of == "ratio" else bound for bound in bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Measurements of one thing, in the order in which they were made.

    ours, baseline: one value a round; round n of both ran one right after the other. Either is
    empty if it is unavailable: no rival installed, no CPU clock on this system.
    bound: the best that the design itself can reach, and why, if that is known.
    """

    what: str
    unit: str
    ours: tuple[float, ...]
    baseline: tuple[float, ...] = ()
    against: str = ""
    target: Target | None = None
    bound: str = ""

    @property
    def ratios(self) -> tuple[float, ...]:
        """Return ours/baseline round by round: neighbours in time share the machine's state."""
        if not self.baseline or not self.ours or not all(self.baseline):
            return ()
        return tuple(ours / base for ours, base in zip(self.ours, self.baseline, strict=True))

    @property
    def more_is_better(self) -> bool:
        """Tell a rate of work from a cost: time, CPU, bytes, processes."""
        return self.unit == "events/s"

    @property
    def kind(self) -> Literal["CPU", "WAL", "time"]:
        """Return the kind of the measurement: each kind has other disturbances."""
        said = f"{self.what} {self.unit}"
        return "CPU" if "CPU" in said else "WAL" if "WAL" in said else "time"

    @property
    def verdict(self) -> Literal["met", "missed", ""]:
        if self.target is None:
            return ""
        values = self.ratios if self.target.of == "ratio" else self.ours
        if not values:
            return ""
        return "met" if self.target.met(median(values)) else "missed"


def compared(
    what: str,
    unit: str,
    value: Callable[[T], float | None],
    sides: tuple[Sequence[T], Sequence[T], str],
    target: Target | None = None,
    bound: str = "",
) -> Figure:
    """Return the figure of one value of each round; unavailable values are left out.

    sides: the rounds of ours, the rounds of another, and its name.
    """
    *rounds, against = sides
    ours, baseline = (
        tuple(found for each in side if (found := value(each)) is not None) for side in rounds
    )
    return Figure(
        what=what,
        unit=unit,
        ours=ours,
        baseline=baseline,
        against=against,
        target=target,
        bound=bound,
    )


def _short(limit: float) -> str:
    limit = round(limit, 2)
    return f"{limit:g}" if limit < 10_000 else f"{limit / 1000:g}k"


NO_NOISE = Target("ratio", at_least=1 / NOISE_MAX, at_most=NOISE_MAX)


def marked(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """Return the figures, with a note on those that noise between neighbours makes meaningless."""
    loud = [each for each in figures if each.against == ITSELF and each.verdict == "missed"]

    def said(figure: Figure) -> Figure:
        for noise in () if figure.against == ITSELF else loud:
            if noise.kind == figure.kind and figure.what.startswith(noise.what.removesuffix(NOISE)):
                doubt = f"not believable: ours was {median(noise.ratios):.2g} of itself in this run"
                figure = replace(figure, bound="; ".join(filter(None, (doubt, figure.bound))))
        return figure

    return tuple(map(said, figures))


def alternate(rounds: int, runs: Mapping[str, Callable[[], T]]) -> dict[str, tuple[T, ...]]:
    """Run A B C, C B A, … and return the results of each by name, in order of the rounds."""
    results: dict[str, list[T]] = {name: [] for name in runs}
    order = [*runs]
    for _ in range(rounds):
        for name in order:
            results[name].append(runs[name]())
        order.reverse()
    return {name: tuple(values) for name, values in results.items()}


def quantile(values: list[float], share: float) -> float:
    """Return the value below which `share` of the values lie; values is not empty."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
