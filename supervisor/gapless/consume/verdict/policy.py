"""The verdict on a unit that failed: by the group's policy, and the handler's wish (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gapless.consume.verdict.wish import DeadLetter, Retry, Skip
from gapless.settings.sections import OnFailure

BLOCK_RETRY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A group's treatment of units that fail.

    retry_delays_s: until the second, third, … attempt (retry, park-key); after them it is dead.
    crashes_max: after this number of deaths of a worker at one unit it is not called any more.
    brake_keys: a partition may slow down once units of this number of keys have failed in a row.
    """

    on_failure: OnFailure = "dead-letter"
    retry_delays_s: tuple[float, ...] = ()
    crashes_max: int = 3
    brake_keys: int = 10

    @property
    def parks(self) -> bool:
        """Whether later units that touch a key of a failed one are parked behind it."""
        return self.on_failure == "park-key"

    @property
    def blocks(self) -> bool:
        """Whether no unit passes a failed one: it is tried again in place."""
        return self.on_failure == "block"

    @property
    def needs_order(self) -> bool:
        """Whether it holds back later units, so a group without an order cannot have it."""
        return self.parks or self.blocks

    def gives_up(self, crashes: int) -> bool:
        """Tell whether a unit at which so many workers died is dead, without another call."""
        return crashes >= self.crashes_max and not self.blocks


DEAD_LETTER = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """skip: as if handled. block: not passed, tried again in place. All others are set aside.

    dead: until a person redrives it. waiting: for another attempt. parked: behind another unit.

    counted: False for a call that tells nothing about its unit: it is no attempt.
    """

    state: Literal["skip", "dead", "waiting", "parked", "block"]
    retry_after_s: float = 0.0
    counted: bool = True


def judge(policy: Policy, error: BaseException, failed: int, *, redriven: bool = False) -> Verdict:
    """Return the verdict on a unit that failed for the `failed`-th time, this one included.

    redriven: it was dead before, and a person asked for this attempt: it dies again at once.
    """
    assert failed >= 1
    if isinstance(error, Skip):
        return Verdict(state="skip")
    if isinstance(error, Retry):
        return Verdict(state="waiting", retry_after_s=error.after)
    if isinstance(error, DeadLetter) or redriven or policy.on_failure == "dead-letter":
        return Verdict(state="dead")
    if policy.blocks:
        return Verdict(state="block", retry_after_s=BLOCK_RETRY_S)
    if failed > len(policy.retry_delays_s):
        return Verdict(state="dead")
    return Verdict(state="waiting", retry_after_s=policy.retry_delays_s[failed - 1])
