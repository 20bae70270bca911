"""Doctor's checks of compaction: topics are compacted, with all of their events."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.compaction.ops import CompactionInfo, list_compactions
from gapless.ops.doctor.finding import Finding, Patient, ok, warning
from gapless.ops.text import age_text, plain, quantity

_STANDS_S = 60.0


def compaction(patient: Patient) -> Iterator[Finding]:
    """Check that events are taken in, and that none was missing from the log."""
    found = list_compactions(patient.conn)
    ill = [finding for each in found for finding in _of(each)]
    yield from ill
    if ill:
        return
    on = [each for each in found if each.is_on]
    keys = quantity(sum(each.keys for each in on), "key")
    lag = quantity(sum(each.lag for each in on), "event")
    what = f"{quantity(len(on), 'topic')}, {keys} kept, {lag} to take in"
    yield ok("compaction", what if on else "no topic is compacted")


def _of(each: CompactionInfo) -> Iterator[Finding]:
    if each.stands_s is not None and each.stands_s > _STANDS_S:
        yield warning(
            "compaction",
            plain(
                f"of topic {each.topic}: {quantity(each.lag, 'event')} wait to be taken in, none "
                f"was for {age_text(each.stands_s)}: nothing is lost, retention keeps them"
            ),
            "gapless run takes them in, and so does select gapless.compact()",
        )
    if not each.is_on:
        yield warning(
            "compaction",
            plain(f"of topic {each.topic} is off, and kept events are not removed yet"),
            "gapless run removes it, in steps, and so does select gapless.compact()",
        )
    if each.missing:
        yield warning(
            "compaction",
            plain(
                f"of topic {each.topic}: {quantity(each.missing, 'event')} had been deleted from "
                "the log: the kept events of their keys may be too old"
            ),
            f"publish their keys anew, or gapless topics alter {each.topic} --no-compact, then "
            "--compact",
        )
