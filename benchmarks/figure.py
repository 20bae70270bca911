"""A figure: what was measured, for us and for the baseline, and whether that is enough (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeVar

T = TypeVar("T")

ITSELF = "itself, every other turn"
# What ours is compared with though it is no other design: itself, or nothing at all.
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
        sign, limit = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        limit = round(limit or 0, 2)
        bound = f"{sign} {limit:g}" if limit < 10_000 else f"{sign} {limit / 1000:g}k"
        return f"{bound}x" if self.of == "ratio" else bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Measurements of one thing, in the order they were made.

    ours, baseline: one value a round; round n of both ran one right after the other. Either is
    empty when it could not be had: no rival installed, no CPU clock on this system.
    bound: how far the design itself can come, and why, where that is known.
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
        """Return ours/baseline round by round: neighbours in time share the machine's mood."""
        if not self.baseline or not self.ours or not all(self.baseline):
            return ()
        return tuple(ours / base for ours, base in zip(self.ours, self.baseline, strict=True))

    @property
    def more_is_better(self) -> bool:
        """Tell rates of work from what it costs: time, CPU, bytes, processes."""
        return self.unit == "events/s"

    @property
    def verdict(self) -> Literal["met", "missed", ""]:
        if self.target is None:
            return ""
        values = self.ratios if self.target.of == "ratio" else self.ours
        if not values:
            return ""
        return "met" if self.target.met(median(values)) else "missed"


def alternate(rounds: int, runs: Mapping[str, Callable[[], T]]) -> dict[str, tuple[T, ...]]:
    """Run A B C, A B C, … and return the results of each by name, in order of the rounds."""
    results: dict[str, list[T]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            results[name].append(run())
    return {name: tuple(values) for name, values in results.items()}


def quantile(values: list[float], share: float) -> float:
    """Return the value below which `share` of the values lie; values is not empty."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
