"""The place of a stream: the next offset of each partition, as the short text of an SSE `id:`.

Base64url of numbers of 7 bits a byte: the form, the timeline of the log that was read, the topic's
id, then one offset for each partition from 0 on; 0 is a partition that is not followed. A client
can give it back at any gateway. Form 1, of older gateways, has no timeline.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping

from gapless.features.gateway.problem import Problem

CHARACTERS_MAX = 2_048  # characters
_FORM = 2
_WITHOUT_TIMELINE = 1
_PARTITIONS_MAX = 4_096
_BITS_MAX = 63


def vector_text(topic_id: int, next_offsets: Mapping[int, int], timeline: int) -> str:
    """Return the text of a place in partitions; every offset is 1 or more."""
    last = max(next_offsets, default=-1)
    numbers = [_FORM, timeline, topic_id, *(next_offsets.get(n, 0) for n in range(last + 1))]
    made = bytearray()
    for each in numbers:
        left = each
        while left > 0x7F:
            made.append(left & 0x7F | 0x80)
            left >>= 7
        made.append(left)
    return base64.urlsafe_b64encode(bytes(made)).decode().rstrip("=")


def read_vector(text: str, topic_id: int) -> tuple[dict[int, int], int | None]:
    """Return the next offset of each followed partition, and the timeline if it is known.

    Raises Problem (400) for a text that vector_text() has not made, or for another topic.
    """
    if len(text) > CHARACTERS_MAX or not text.isascii():
        raise _refused("it is none that a stream has sent")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        form, *numbers = _numbers(raw)
        timeline = numbers.pop(0) if form == _FORM else None
        of_topic, *offsets = numbers
    except (ValueError, IndexError, binascii.Error):
        raise _refused("it is none that a stream has sent") from None
    if form not in (_FORM, _WITHOUT_TIMELINE) or len(offsets) > _PARTITIONS_MAX or not any(offsets):
        raise _refused("it is none that a stream has sent")
    if of_topic != topic_id:
        raise _refused("it is of another topic")
    return {number: offset for number, offset in enumerate(offsets) if offset}, timeline


def _numbers(raw: bytes) -> Iterator[int]:
    value = shift = 0
    for each in raw:
        value |= (each & 0x7F) << shift
        shift += 7
        if shift > _BITS_MAX + 7 or value >> _BITS_MAX:
            raise ValueError(raw)
        if not each & 0x80:
            yield value
            value = shift = 0
    if shift:
        raise ValueError(raw)


def _refused(why: str) -> Problem:
    return Problem(400, f"Last-Event-ID: {why}")
