"""Offsets for events published without a supervisor: the gateway gives them until one runs.

Meanwhile it also records the past of groups, so an outage of supervisors is in their charts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

import psycopg

from gapless.errors import ConnectError, GaplessError
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.sessions import Sessions
from gapless.features.gateway.trouble import RepeatedFailure
from gapless.log.catch_up import stand_in
from gapless.status.past import MINUTE_S, record_minute

log = logging.getLogger("gapless.gateway")

LOOK_S = 1.0
ALONE_S = 0.1  # there are no notifications while only this gateway sequences
RESTS = 4  # times the duration of a look: it is busy for at most a fifth of the time
_FAILURES = (psycopg.Error, ConnectError, GaplessError, Problem)


class StandIn:
    """Sequences while no supervisor does, and calls `grown` after it has given offsets.

    Any reader may call log.catch_up, and record a minute: any number of gateways do no harm, and a
    session of a pooler is enough.
    """

    def __init__(self, sessions: Sessions, grown: Callable[[], object]) -> None:
        self._sessions = sessions
        self._grown = grown
        self._rung = asyncio.Event()
        self._is_alone = False
        self._trouble = RepeatedFailure("events may get no offsets from this gateway")
        self._gap = RepeatedFailure("this gateway records no history")

    def ring(self) -> None:
        """Look at once, if no supervisor sequences: events were published."""
        if self._is_alone:
            self._rung.set()

    async def run(self) -> None:
        """Look until cancelled."""
        recording = asyncio.create_task(self._record())  # beside: its waits delay no offset
        try:
            await self._give_offsets()
        finally:
            recording.cancel()

    async def _give_offsets(self) -> None:
        house_s = -LOOK_S  # monotonic: the time of the last housekeeping
        while True:
            self._rung.clear()
            began_s = monotonic()
            keeps_house = began_s - house_s >= LOOK_S
            try:
                given = await self._sessions.run(partial(stand_in, keeps_house=keeps_house))
            except _FAILURES as error:
                self._trouble.note(error)
            else:
                self._trouble.end()
                self._note(is_alone=given is not None)
                if given:
                    self._grown()
                    house_s = monotonic() if keeps_house else house_s
            await asyncio.sleep(min(RESTS * (monotonic() - began_s), ALONE_S))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), ALONE_S if self._is_alone else LOOK_S)

    async def _record(self) -> None:
        """Record each minute, unless that was done, as a sequencer's process does."""
        while True:
            wait_s = LOOK_S
            if self._is_alone:
                try:
                    wait_s = await self._sessions.run(record_minute)
                except _FAILURES as error:
                    self._gap.note(error)
                    wait_s = MINUTE_S
                else:
                    self._gap.end()
            await asyncio.sleep(wait_s)

    def _note(self, *, is_alone: bool) -> None:
        if is_alone and not self._is_alone:
            log.info("no supervisor sequences: this gateway gives the offsets until one does")
        elif self._is_alone and not is_alone:
            log.info("a supervisor sequences: this gateway gives no offsets any more")
        self._is_alone = is_alone
