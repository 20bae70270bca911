"""The routes of the doctor and of programs: the newest findings, a new examination, sessions.

An examination takes two sessions of its own and some seconds of a thread, so it is made only when a
caller asks, one at a time, and one of the last 5 s answers for those that come meanwhile.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from time import monotonic
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gapless.errors import ConnectError
from gapless.features.gateway.examination import Examination
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.operate import said
from gapless.features.gateway.problem import away
from gapless.features.gateway.shape import NOTHING
from gapless.features.gateway.way import Asked, Ways
from gapless.ops.doctor.rounds import diagnose
from gapless.ops.programs import list_programs

FRESH_S = 5.0
ways = Ways()


@ways.way("GET /v1/doctor", "read:*")
async def findings(gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Return the newest findings of the doctor, and their age; null before an examination."""
    return said(_aged(gateway.examination))


@ways.way("POST /v1/doctor examine", "read:*", body=NOTHING)
async def examine(gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Examine the database as the gateway's role, change nothing, and return the findings."""
    held = gateway.examination
    async with held.lock:
        if held.report is None or monotonic() - held.made_s > FRESH_S:
            sessions = gateway.sessions
            wait_s = sessions.connect_timeout_s
            held.report = await asyncio.to_thread(_examined, sessions.dsn, wait_s)
            held.made_s = monotonic()
    return said(_aged(held))


def _aged(held: Examination) -> dict[str, Any]:
    if held.report is None:
        return {"age_s": None, "took_s": None, "findings": []}
    return {"age_s": round(monotonic() - held.made_s, 3), **held.report}


@ways.way("GET /v1/programs", "read:*", fails=())
async def programs(gateway: Gateway, _request: Request, _asked: Asked) -> Response:
    """Return the programs that have sessions in the database: kind, role, host, since."""
    return said(await gateway.sessions.run(list_programs))


def _examined(dsn: str, connect_timeout_s: int) -> dict[str, Any]:
    """Return a report. Raises Problem (503) without a session: the reason is for the log alone."""
    began_s = monotonic()
    found = [asdict(each) for each in diagnose(dsn, connect_timeout_s=connect_timeout_s)]
    if found[0]["name"] == "connection" and found[0]["level"] == "FAIL":
        raise away(ConnectError(found[0]["text"]))
    return {"took_s": round(monotonic() - began_s, 3), "findings": found}
