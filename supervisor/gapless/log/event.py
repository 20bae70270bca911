"""Event, as handlers see it, and NewEvent, as producers make it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic
from uuid import UUID

from gapless.log.cause import Cause, parse_cause
from gapless.log.codec import NotJson, decode_bytes

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # the one in typing takes a default from 3.13 on

    P_co = TypeVar("P_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    P_co = TypeVar("P_co", covariant=True)

# The columns of an event: those that its producer gives, and those that are read, in the order of a
# Row and of the named query `fetch`. SQL has lists of its own: a statement that says `*` breaks in
# the sessions that prepared it when a column is added. tests/test_columns.py compares the lists.
GIVEN = ("payload", "key", "event_type", "headers", "host_id", "user_id", "transaction_id")
COLUMNS = (
    "id", "key", "event_type", "payload", "headers", "host_id", "user_id", "transaction_id", "xid",
    "created_ts", "cause", "correlation",
)  # fmt: skip
# Values that are expensive to decode stay as they came until they are read: payload and headers as
# JSON text, created_ts in microseconds since _EPOCH (PostgreSQL's own).
Row = tuple[
    int,
    str | None,
    str | None,
    bytes | None,
    bytes | None,
    str | None,
    str | None,
    UUID | None,
    int,
    int,
    str | None,
    UUID | None,
]
_TO_GROUP = b"gapless-to-group"  # a header; as in direct_headers.sql
_TO_SUBSCRIPTION = "gapless-to-subscription"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_UNREAD: Any = ...  # no JSON is this, and it stays itself when an event is copied or pickled


@dataclass(slots=True, kw_only=True)  # not frozen: making one would take three times as long
class NewEvent(NotJson):
    """An event to publish. Only `payload` is needed.

    payload: any value that json.dumps takes, dataclasses, models of pydantic, structs of msgspec,
    UUID, Decimal, dates and times; `bytes` are stored as they are: they are JSON text already.
    key: events with one key stay in order in one partition; default host_id, else the transaction.
    event_type, headers (a JSON object), host_id, user_id: for readers; stored as they are.
    transaction_id: makes a unit of its own; default the publishing database transaction.
    dedupe_key: 1 to 500 characters; the topic takes one event with it within its dedupe window.
    deliver_at, deliver_in: give one of them to schedule an event, which gets its offset then or
    later: a time with a time zone (1970 to 9000) or its ISO 8601 text; seconds (0 or more) or a
    timedelta, from the beginning of the transaction. A time in the past means now.
    to_group: only this group of the topic gets it, others pass it; the topic has to take messages.
    to_subscription: only the subscription of to_group with this name gets it, matching or not.
    Nothing is checked before publish(), which raises PublishError for values that cannot be stored.
    """

    payload: object
    key: str | None = None
    event_type: str | None = None
    headers: dict[str, Any] | None = None
    host_id: str | None = None
    user_id: str | None = None
    transaction_id: UUID | str | None = None
    dedupe_key: str | None = None
    deliver_at: datetime | str | None = None
    deliver_in: timedelta | float | None = None
    to_group: str | None = None
    to_subscription: str | None = None


@dataclass(frozen=True, slots=True)
class MatchedSubscription:
    """A subscription that an event matched: its name in the group, and its params.

    subscription_id: its number in the database, which it keeps when it is changed.
    """

    subscription_id: int
    name: str
    params: Mapping[str, Any]


class Event(Generic[P_co]):
    """One event of the log, read-only. `payload` and `headers` are decoded when first asked for.

    In a handler with payload=Order it is an Event[Order], and its payload an Order.

    topic, partition (from 0), offset (from 1, without holes in its partition): its place.
    filter_error: why its group's filter could not be applied (docs/use/filters.md); nearly
    always None. subscriptions: those of its group that it matched (docs/use/subscriptions.md).
    """

    filter_error: str | None = None
    subscriptions: tuple[MatchedSubscription, ...] = ()
    __slots__ = ("_headers", "_payload", "_row", "_timeline", "offset", "partition", "topic")

    def __init__(
        self, topic: str, partition: int, offset: int, row: Row, timeline: int = 1
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self._row = row
        self._timeline = timeline
        self._payload = self._headers = _UNREAD

    @property
    def id(self) -> int:
        """The id in outbox_message_t: unique in the database, not gapless."""
        return self._row[0]

    @property
    def key(self) -> str | None:
        """The key that keeps it in order, as it was published; None without one."""
        return self._row[1]

    @property
    def event_type(self) -> str | None:
        """Its type, as it was published."""
        return self._row[2]

    @property
    def payload(self) -> P_co:
        """The decoded JSON. Raises ValueError if Python cannot represent a number or string."""
        if self._payload is _UNREAD:
            raw = self._row[3]
            self._payload = None if raw is None else decode_bytes(raw)
        return self._payload  # type: ignore[no-any-return]

    def decode_payload(self, decoder: Callable[[bytes], Any]) -> None:
        """Decode `payload` now, with this decoder; an absent payload is null."""
        self._payload = decoder(self._row[3] or b"null")

    @property
    def payload_json(self) -> bytes | None:
        """The producer's JSON text, byte for byte (UTF-8)."""
        return self._row[3]

    @property
    def headers(self) -> dict[str, Any]:
        """The decoded JSON object; empty if there is none. Raises ValueError as `payload` does.

        Also empty if a plain INSERT stored another JSON value: `publish()` refuses those.
        """
        if self._headers is _UNREAD:
            raw = self._row[4]
            text = b"" if raw is None else raw.lstrip()
            self._headers = decode_bytes(text) if text.startswith(b"{") else {}
        headers: dict[str, Any] = self._headers
        return headers

    @property
    def to_group(self) -> str | None:
        """The only group that gets the event (docs/use/messages.md); None: all groups."""
        raw = self._row[4]
        if raw is None or _TO_GROUP not in raw:
            return None
        group = self.headers.get(_TO_GROUP.decode())
        return None if group is None else str(group)

    @property
    def to_subscription(self) -> str | None:
        """The name of the only subscription of `to_group` that gets it; None: all of them."""
        name = None if self.to_group is None else self.headers.get(_TO_SUBSCRIPTION)
        return None if name is None else str(name)

    @property
    def host_id(self) -> str | None:
        """The host that the event belongs to, as it was published; a UUID in lower case."""
        return self._row[5]

    @property
    def user_id(self) -> str | None:
        """The user, within `host_id`, that the event belongs to, as it was published."""
        return self._row[6]

    @property
    def transaction_id(self) -> UUID:
        """The unit's transaction: the producer's own id, or one derived from cause or xid."""
        return self._row[7] or transaction_uuid(self._row[8], self._timeline)

    @property
    def cause(self) -> Cause | None:
        """The unit that was handled when it was published; None if no handler published it."""
        return parse_cause(self._row[10])

    @property
    def correlation(self) -> UUID:
        """The transaction_id of the first event of its chain; its own if it has no cause."""
        return self._row[11] or self.transaction_id

    @property
    def created_ts(self) -> datetime:
        """The time at which the event was inserted (the database's clock), in UTC."""
        return _EPOCH + timedelta(microseconds=self._row[9])

    def __repr__(self) -> str:
        return (
            f"Event({self.topic}/{self.partition}@{self.offset} "
            f"key={self.key!r} event_type={self.event_type!r})"
        )


class Unasked(Event[P_co]):
    """An event that is delivered because its group's filter could not be applied to it."""

    __slots__ = ("filter_error",)

    def __init__(
        self, topic: str, partition: int, offset: int, row: Row, timeline: int, why: str
    ) -> None:
        super().__init__(topic, partition, offset, row, timeline)
        self.filter_error = why


class MatchedEvent(Event[P_co]):
    """An event of a group with subscriptions."""

    __slots__ = ("subscriptions",)

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        row: Row,
        timeline: int,
        subscriptions: tuple[MatchedSubscription, ...],
    ) -> None:
        super().__init__(topic, partition, offset, row, timeline)
        self.subscriptions = subscriptions


def transaction_uuid(xid: int, timeline: int = 1) -> UUID:
    """Return the transaction_id of events published without one, as that SQL function does."""
    digits = f"{xid:016x}"
    first = timeline if timeline > 1 else 0
    return UUID(f"{first:08x}-0000-8000-8{digits[1:4]}-{digits[4:]}")
