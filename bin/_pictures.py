"""Draw the console's pictures for the documentation: python bin/_pictures.py FOLDER.

They show an invented shop, so that they are the same on every machine and need no database.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from rich.console import Console
from rich.terminal_theme import MONOKAI

from gapless.status.draw import draw
from gapless.status.history import History
from gapless.status.snapshot import (
    Eviction,
    Presence,
    RecentLetter,
    Sequencing,
    Server,
    Snapshot,
    Standing,
    TopicEnd,
)
from gapless.status.view import Canvas, ConsolePage, ConsoleState, LetterLine, Look

COLUMNS, LINES = 100, 30
LOOKS = 46  # a second each
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MEMBERS = {UUID(int=n): name for n, name in enumerate(("shop-1", "shop-2", "shop-3"), start=1)}
# Group, topic, partitions, events a second.
GROUPS = (
    ("billing", "orders", 48, 21.0),
    ("search", "orders", 48, 21.0),
    ("mailer", "mails", 24, 9.0),
    ("audit", "orders", 24, 21.0),
)
LAGGARD = ("billing", "orders", 31)
DEAD = ("billing", "orders", 17)
KILLED_AT = 38  # shop-3 is killed: its partitions go to the others
UNIT = """\
dead letter billing/orders/17@20418
  state           dead
  events          1 of transaction 0195a1c2-7e40-7c11-a0f3-4b5d6e7f8091
  attempts        3, first 2026-03-01T11:58:02.118Z
  last failed     2026-03-01T11:59:12.402Z, after 4 ms
  worker          shop-1 pid 4711
  parked behind   2 units, 2 events: 20431, 20447
  key             customer-1093
  event_type      order.placed
  published       2026-03-01T11:58:01.987Z (message_id 3104882)

payload
  {
    "order": 55120,
    "sum": 129.9
  }

error
  Traceback (most recent call last):
    File "/srv/shop/app.py", line 12, in bill
      amount = event.payload["total"]
               ~~~~~~~~~~~~~^^^^^^^^^
  KeyError: 'total'
"""

_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_FONTS = "'Fira Code', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def main(folder: Path) -> None:
    """Write the pictures into an existing folder."""
    history = History()
    for second in range(LOOKS):
        shot = _shop(second)
        history.add(shot)
    look = Look(
        snapshot=shot,
        history=history,
        letters_at=DEAD,
        letters=_letters(shot.server.taken_ts),
        text_at=(*DEAD, 20418),
        text=UNIT,
    )
    for name, depth in (("console", 0), ("console-group", 2), ("console-dead-letter", 4)):
        at = (*DEAD, 20418)[:depth]
        opened = (ConsolePage(at=at),) if at else ()
        state = ConsoleState(pages=(ConsolePage(), *opened))
        path = folder / f"{name}.svg"
        path.write_text(_svg(look, state), encoding="utf-8")


def _svg(look: Look, state: ConsoleState) -> str:
    """Return the screen as an SVG that loads nothing."""
    screen = Console(
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
        width=COLUMNS,
        legacy_windows=False,
        _environ={},
    )
    for line in draw(look, state, Canvas(width=COLUMNS, height=LINES, time_zone=UTC)):
        screen.print(line, soft_wrap=True)
    svg = screen.export_svg(title="gapless status --watch", theme=MONOKAI, unique_id="gapless")
    # rich's template loads fonts from a server; a picture in a README must not.
    svg = _FONT_FACES.sub("", svg).replace("Fira Code, monospace", _FONTS)
    # Some viewers drop the blanks that align figures to the right, even no-break spaces.
    svg = svg.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def _shop(second: int) -> Snapshot:
    """Return the state of the shop at a second."""
    rows = tuple(_partitions(second))
    return Snapshot(
        place="shop on db1:5432",
        server=_server(second),
        sequencer=Sequencing(
            run=70_112 + second, events=54, ran_ts=NOON, pid=4242, is_asleep=False,
            needs_rebase=False,
        ),
        topics=tuple(_topics(rows)),
        pending=(),
        members=tuple(_members(second, rows)),
        partitions=rows,
        letters=(
            RecentLetter(
                group_id="billing", topic="orders", partition_id=17, first_offset=20418,
                attempts=3, error="KeyError: 'total'",
                last_failed_ts=NOON - timedelta(seconds=48),
            ),
        ),
        evictions=(
            Eviction(
                member_id=UUID(int=3), name="shop-3", reason="its session ended",
                evicted_ts=NOON + timedelta(seconds=KILLED_AT),
            ),
        ),
        chunks=6,
    )  # fmt: skip


def _server(second: int) -> Server:
    return Server(
        taken_ts=NOON + timedelta(seconds=second),
        database="shop",
        version="17.6",
        started_ts=NOON - timedelta(days=9),
        oldest_transaction_s=None,
        oldest_transaction=None,
        sessions=164,
        commits=0,
        rollbacks=0,
    )


def _partitions(second: int) -> Iterator[Standing]:
    for group_id, topic, partitions, pace in GROUPS:
        for n in range(partitions):
            yield _standing((group_id, topic, n), second, pace + n % 5)


def _standing(key: tuple[str, str, int], second: int, pace: float) -> Standing:
    """Return the state of a partition; the laggard was stopped for a while, and catches up."""
    group_id, topic, n = key
    last = 20_000 + round(pace * second) + 37 * n
    lag = 41_200 - 420 * second if key == LAGGARD else (n + second) % 3 * (group_id == "search")
    owner = UUID(int=n % 3 + 1)
    is_moved = owner.int == 3 and second >= KILLED_AT
    owner = UUID(int=n % 2 + 1) if is_moved else owner
    return Standing(
        group_id=group_id,
        topic=topic,
        partition_id=n,
        owner=MEMBERS[owner],
        target=MEMBERS[owner],
        owner_id=owner,
        target_id=owner,
        epoch=4 + is_moved,
        is_held=True,
        next_offset=last + 1 - lag + 60_000 * (key == LAGGARD),
        last_offset=last + 60_000 * (key == LAGGARD),
        lag=lag,
        lag_s=lag / 21 if key == LAGGARD else lag * 0.004,
        error=None,
        error_ts=None,
        dead_letters=1 if key == DEAD else 0,
        dead_events=1 if key == DEAD else 0,
        parked=2 if key == DEAD else 0,
    )


def _topics(rows: tuple[Standing, ...]) -> Iterator[TopicEnd]:
    for topic, group_id in (("mails", "mailer"), ("orders", "search")):
        ends = [row.last_offset for row in rows if (row.group_id, row.topic) == (group_id, topic)]
        yield TopicEnd(topic=topic, partitions=len(ends), events=sum(ends), last_offsets=ends)


def _members(second: int, rows: tuple[Standing, ...]) -> Iterator[Presence]:
    for member_id, name in MEMBERS.items():
        if member_id.int == 3 and second >= KILLED_AT:
            continue
        owned = sum(row.owner_id == member_id for row in rows)
        yield Presence(
            member_id=member_id,
            name=name,
            state="active",
            up_s=93_600.0 + second,
            beat_s=0.2 * member_id.int,
            ttl_s=5.0,
            is_present=True,
            is_suspected=False,
            capacity=None,
            owned=owned,
            wanted=owned,
            groups=[f"{group_id}/{topic}" for group_id, topic, _, _ in GROUPS],
        )


def _letters(now: datetime) -> list[LetterLine]:
    dead = LetterLine(
        offset=20418,
        events=1,
        state="dead",
        attempts=3,
        failed_ts=now - timedelta(seconds=48),
        key="customer-1093",
        error="KeyError: 'total'",
    )
    behind = replace(dead, state="parked", attempts=0, error="parked behind an earlier unit")
    return [replace(behind, offset=20447), replace(behind, offset=20431), dead]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
