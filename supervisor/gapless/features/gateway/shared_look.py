"""A look at the whole log that requests share: one at a time, however many pages are open.

With a thousand groups a look takes half a second of CPU: ten pages that look for themselves every
two seconds would take all of a small machine.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from threading import Lock
from time import monotonic
from typing import Any

from gapless.features.gateway.sessions import Sessions
from gapless.ops.text import json_text
from gapless.status import Snapshot, snapshot, to_document

FORMS_MAX = 20


class SharedLook:
    """A snapshot, and its document in the forms that were asked for; any thread may ask."""

    def __init__(self, found: Snapshot) -> None:
        self._document = to_document(found)
        self._made: dict[tuple[str, bool], bytes] = {}
        self._making = Lock()

    def body(self, partitions: str, *, is_packed: bool) -> bytes:
        """Return its JSON text with these partitions: all, none, GROUP/TOPIC; packed: by gzip."""
        with self._making:
            return self._body(partitions, is_packed=is_packed)

    def _body(self, partitions: str, *, is_packed: bool) -> bytes:
        form = partitions, is_packed
        if form not in self._made:
            if len(self._made) >= FORMS_MAX:
                self._made.clear()
            self._made[form] = (
                gzip.compress(self._body(partitions, is_packed=False), 1)
                if is_packed
                else json_text(_with_partitions(self._document, partitions)).encode()
            )
        return self._made[form]


class SharedLooks:
    """Takes looks; no two at a time."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._look: asyncio.Task[SharedLook] | None = None
        self._began_s = 0.0  # monotonic

    async def newest(self, age_s: float) -> SharedLook:
        """Return a look that began at most so long before this call. Raises as Sessions.run()."""
        asked_s = monotonic()
        while self._look is None or self._began_s < asked_s - age_s or _has_failed(self._look):
            if self._look is not None and not self._look.done():
                await asyncio.wait({self._look})
                continue
            self._began_s = monotonic()
            self._look = asyncio.create_task(
                self._sessions.run(lambda conn: SharedLook(snapshot(conn)))
            )
            break
        look = self._look
        await asyncio.wait({look})  # a cancelled caller does not cancel it
        if (error := look.exception()) is not None:
            raise _copy_of(error)
        return look.result()


def _copy_of(error: BaseException) -> BaseException:
    """Return an error for one caller: its traceback and notes are not those of others."""
    own = type(error).__new__(type(error), *error.args)
    own.__dict__.update(error.__dict__)
    own.__cause__ = error.__cause__
    return own


def _has_failed(look: asyncio.Task[SharedLook]) -> bool:
    """Tell whether it has ended without a look."""
    return look.done() and (look.cancelled() or look.exception() is not None)


def _with_partitions(document: dict[str, Any], wanted: str) -> dict[str, Any]:
    """Leave the partitions of one group: those of a thousand groups take megabytes.

    A group has the sum of its offsets instead, from which a client finds its rate.
    """
    if wanted == "all":
        return document
    offsets: Counter[tuple[str, str]] = Counter()
    for row in document["partitions"]:
        offsets[row["group"], row["topic"]] += row["current_offset"]
    groups = [
        {**group, "current_offset": offsets[group["group"], group["topic"]]}
        for group in document["groups"]
    ]
    rows = [row for row in document["partitions"] if f"{row['group']}/{row['topic']}" == wanted]
    return {**document, "groups": groups, "partitions": rows}
