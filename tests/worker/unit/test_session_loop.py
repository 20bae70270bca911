"""The loop over one session: turns for what is due, waits for what is not, an end that is reported."""

from dataclasses import dataclass, field, replace
from time import monotonic

import psycopg
import pytest
from psycopg import Connection

from gapless.worker.forgive import InHand
from gapless.worker.session_loop import Host, Opening, session_loop


@dataclass
class Served:
    """What has so many turns, the first of them in a while; then it ends with its name."""

    name: str
    turns: int
    due_s: float
    loses_session: bool = False

    def turn(self) -> str | None:
        if self.loses_session:
            raise psycopg.OperationalError("gone")
        self.turns -= 1
        return None if self.turns else self.name


@dataclass
class Desk(Host[Served, str]):
    """Serves all there is, the one that is due first; says what happened."""

    served: list[Served]
    story: list[str] = field(default_factory=list)

    def over(self) -> str | None:
        return None if self.served else "all is done"

    def next(self) -> Served:
        return min(self.served, key=lambda each: each.due_s)

    def wait(self, until_s: float) -> None:
        self.story.append("wait")
        for each in self.served:  # the time has come
            each.due_s = min(each.due_s, monotonic())

    def took(self, served: Served, end: str | None, /) -> None:
        self.story.append(f"{served.name} {end or 'continues'}")
        if end is not None:
            self.served.remove(served)

    def in_hand(self) -> list[tuple[InHand, int]]:
        self.story.append("what was in hand is asked for")
        return [(Attempt(), 1)]


class Attempt:
    """An attempt that is written down."""

    has_attempt = True

    def forgive(self, conn: Connection) -> None:
        raise AssertionError("nobody could connect")


def nowhere() -> Connection:
    raise psycopg.OperationalError("still gone")


OPENING = Opening(connect=nowhere, max_processing_ms=1000, patience_s=0.0)


def test_what_is_due_has_turns_until_it_ends_and_nothing_waits_meanwhile() -> None:
    later = monotonic() + 3600
    desk = Desk([Served("a", 2, 0.0), Served("b", 1, later)])
    assert session_loop(desk, OPENING) == "all is done"
    assert desk.story == ["a continues", "a a", "wait", "b b"]


def test_nothing_to_serve_is_the_end() -> None:
    assert session_loop(Desk([]), OPENING) == "all is done"


def test_a_lost_session_is_raised_after_a_look_at_what_was_in_hand() -> None:
    """Nobody can connect within the patience: then the attempt counts, and the loss is told."""
    desk = Desk([Served("a", 1, 0.0, loses_session=True)])
    attempts: list[str] = []

    def attempt() -> Connection:
        attempts.append("connect")
        return nowhere()

    with pytest.raises(psycopg.OperationalError, match=r"^gone$"):
        session_loop(desk, replace(OPENING, connect=attempt))
    assert desk.story == ["what was in hand is asked for"]
    assert attempts, "it would have been forgiven"
