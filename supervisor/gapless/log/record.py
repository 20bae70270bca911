"""The columns of an event that publish() stores, checked, as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from gapless.errors import PublishError
from gapless.log.codec import encode
from gapless.log.event import GIVEN, NewEvent

Record = tuple[str | None, ...]
"""The columns' values as text, in the order of GIVEN; the transaction_id is the last one."""

KEY_LENGTH_MAX: Final = 500  # characters; as in publish_once.sql
SUBSCRIPTION_LENGTH_MAX: Final = 200  # characters; as in check_subscription.sql
_DELAY_S_MAX = 250_000_000_000  # to the year 9000: the database checks the exact limit

_TEXT = (str, UUID)
_JSON_TEXT = (bytes, bytearray)
_UUID = re.compile(r"(\{)?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?(1)\})")


def record(event: object) -> Record:
    """Return the values of an event for GIVEN. MUST be quick: a COPY calls it for each event."""
    if not isinstance(event, NewEvent):
        raise PublishError(f"many events must all be NewEvents, not {type(event).__name__}")
    return (
        json_text(event.payload, "payload"),
        _text(event.key, "key"),
        _text(event.event_type, "event_type"),
        None if event.headers is None else _headers(event.headers),
        _host(event.host_id),
        _text(event.user_id, "user_id"),
        _uuid(event.transaction_id),
    )


def columns(events: Sequence[object]) -> dict[str, list[str | None] | None]:
    """Return the values of some events, one array a column; None where no event has a value."""
    records = [record(event) for event in events]
    return {name: _column(records, n) for n, name in enumerate(GIVEN)}


def _column(records: Sequence[Record], n: int) -> list[str | None] | None:
    column = [each[n] for each in records]
    return column if any(value is not None for value in column) else None


def _host(value: object) -> str | None:
    """Return a host_id as the database's gapless.canonical_host() does: one spelling a UUID."""
    text = _text(value, "host_id")
    return text.strip("{}").lower() if text is not None and _UUID.fullmatch(text) else text


def _headers(value: object) -> str:
    text = json_text(value, "headers")
    if not text.lstrip().startswith("{"):
        raise PublishError(f"headers are a JSON object, not {text[:100]}")
    return text


def _text(value: object, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, _TEXT):
        raise PublishError(f"{name} must be text, not {type(value).__name__}")
    text = str(value)
    if "\0" in text:
        raise PublishError(f"{name} {text!r} has a NUL character, which PostgreSQL cannot store")
    return text


def is_special(event: Any) -> bool:
    """Tell whether it has a dedupe_key, a time or a group. MUST be quick, as record()."""
    return (
        event.dedupe_key is not None
        or event.deliver_at is not None
        or event.deliver_in is not None
        or event.to_group is not None
        or event.to_subscription is not None
    )


def json_text(value: object, name: str) -> str:
    """Return a value as JSON text. Raises PublishError that begins with `name`."""
    if isinstance(value, _JSON_TEXT):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise PublishError(f"{name}: JSON text must be UTF-8: {error}") from error
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise PublishError(f"{name} is not JSON: {error}") from error


def _uuid(value: UUID | str | None) -> str | None:
    if value is None:
        return None
    try:
        return str(value if isinstance(value, UUID) else UUID(value))
    except (ValueError, AttributeError, TypeError) as error:
        raise PublishError(f"transaction_id {value!r} is not a UUID") from error


def key_text(value: object) -> str | None:
    """Return a dedupe_key as text. Raises PublishError for a value that cannot be one."""
    if value is None:
        return None
    if not isinstance(value, str | UUID):
        raise PublishError(f"dedupe_key must be text, not {type(value).__name__}")
    text = str(value)
    if not 0 < len(text) <= KEY_LENGTH_MAX:
        raise PublishError(
            f"dedupe_key must have 1 to {KEY_LENGTH_MAX} characters, not {len(text)}"
        )
    if "\0" in text:
        raise PublishError(
            f"dedupe_key {text!r} has a NUL character, which PostgreSQL cannot store"
        )
    return text


def moment_text(value: object) -> str | None:
    """Return a deliver_at as text. Raises PublishError for a value that is no moment."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise PublishError(
            f"deliver_at {value!r} is no time: write it as 2030-01-01T09:00Z"
        ) from None
    if not isinstance(moment, datetime):
        raise PublishError(f"deliver_at must be a datetime or text, not {type(value).__name__}")
    if moment.utcoffset() is None:
        raise PublishError(f"deliver_at {value} has no time zone: add one, such as Z or +01:00")
    return moment.isoformat()


def delay_text(value: object) -> str | None:
    """Return a deliver_in as text of an interval. Raises PublishError if it is no delay."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise PublishError(f"deliver_in must be seconds or a timedelta, not {type(value).__name__}")
    if not 0 <= seconds <= _DELAY_S_MAX:
        raise PublishError(f"deliver_in {value} must be from 0 to {_DELAY_S_MAX} seconds")
    hours, rest = divmod(seconds, 3600)  # before version 15 PostgreSQL reads no more than 2^31 s
    return f"{hours:.0f} h {rest:.6f} s"


def group_text(value: object) -> str | None:
    """Return the name of a group. Raises PublishError for a value that cannot be one."""
    if value is None:
        return None
    if not isinstance(value, str) or not value or "\0" in value:
        raise PublishError(f"to_group must be the name of a group, not {value!r:.100}")
    return value


def subscription_text(value: object, to_group: object) -> str | None:
    """Return the name of a group's subscription. Raises PublishError if it cannot be one."""
    if value is None:
        return None
    if to_group is None:
        raise PublishError(f"to_subscription {value!r:.100} is of no group: say to_group, too")
    if not isinstance(value, str) or not 0 < len(value) <= SUBSCRIPTION_LENGTH_MAX or "\0" in value:
        raise PublishError(
            f"to_subscription must be the name of a subscription (1 to {SUBSCRIPTION_LENGTH_MAX} "
            f"characters), not {value!r:.100}"
        )
    return value
