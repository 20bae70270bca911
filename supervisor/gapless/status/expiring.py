"""Groups that go soon, for nobody uses them (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.status.words import age


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """A group in the last tenth of its time: idle_s without use, dropped in left_s.

    set_aside: units that go with it.
    """

    group_id: str
    idle_s: float
    left_s: float
    set_aside: int

    def __str__(self) -> str:
        units = f", with {self.set_aside} units set aside" if self.set_aside else ""
        return (
            f"group {self.group_id} is dropped in {age(self.left_s)}{units}: nobody has used it "
            f"for {age(self.idle_s)}; gapless groups expire {self.group_id} --never keeps it"
        )
