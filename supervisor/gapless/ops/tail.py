"""Read the events of a topic that are there, and those that come, without being a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from gapless.db.connect import is_pooled
from gapless.db.listen import listen, wait
from gapless.features.filters.stored import check_filter
from gapless.log.catch_up import sequence_if_alone
from gapless.log.filter import ALL, Filter
from gapless.log.tail import Entry, Tail, choose_partitions
from gapless.log.topics import require_topic

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.log.topics import Topic

NEWEST = 10
_OWN_POLL_S = 0.25  # no session notifies when this one alone sequences


@dataclass(frozen=True, slots=True, kw_only=True)
class TailOptions:
    """A choice of events of a topic.

    start: earliest, latest, or an offset, in each partition, from which the first `count` are read,
    None: all; without a start they are the newest `count`, None: 10. key: only events with it.
    partition: only this one. only: events that pass a filter. payload_chars: payloads are cut to
    this length; None: uncut.
    """

    start: int | Literal["earliest", "latest"] | None = None
    count: int | None = None
    key: str | None = None
    partition: int | None = None
    only: Filter = ALL
    payload_chars: int | None = None


def read_tail(
    conn: Connection[Any],
    topic: str,
    options: TailOptions,
    *,
    follow: bool = False,
    poll_s: float = 1.0,
) -> Iterator[Entry | None]:
    """Yield events in the order in which they were published, None where there is no more for now.

    Before: `conn` is in autocommit. follow: continue with new events; it looks at least every
    poll_s seconds. Sequences events itself if no other session does.
    Raises UsageError for a missing topic or partition, and for a condition without a value.
    """
    found = require_topic(conn, topic)
    choose = partial(choose_partitions, conn, found, key=options.key, only=options.partition)
    partitions = choose()
    check_filter(conn, options.only)
    cut = options.payload_chars
    tail = Tail(conn, found, partitions, key=options.key, only=options.only, payload_chars=cut)
    hears = follow and not is_pooled(conn)  # a pooler would let another client's session listen
    if hears:
        _listen(conn, found, partitions)  # before the first look, so that nothing is missed
    alone = sequence_if_alone(conn)
    _set_start(tail, options)
    left = None if options.start is None else options.count
    while True:
        for entry in islice(tail.read(), left):
            left = None if left is None else left - 1
            yield entry
        yield None
        if not follow or left == 0:
            return
        wait(conn, _OWN_POLL_S if alone else poll_s)
        alone = sequence_if_alone(conn)
        new = tail.follow(choose())
        if hears:
            _listen(conn, found, new)


def _set_start(tail: Tail, options: TailOptions) -> None:
    if options.start is None:
        tail.start_behind(NEWEST if options.count is None else options.count)
    elif options.start == "latest":
        tail.start_behind(0)
    else:
        tail.start_at(1 if options.start == "earliest" else options.start)


def _listen(conn: Connection[Any], topic: Topic, partitions: list[int]) -> None:
    for each in partitions:
        listen(conn, f"gapless_p_{topic.topic_id}_{each}")
