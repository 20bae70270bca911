"""All errors that gapless raises on purpose; the text of each is one line for a person.

A message says the error, its place, and the remedy. The command line prints it without a
traceback and exits with `exit_code`.
"""

from __future__ import annotations

from typing import Any


class GaplessError(Exception):
    """An error that a person can fix; the command line ends with its `exit_code`."""

    exit_code = 1


class UsageError(GaplessError):
    """The input was wrong: a name, a value, a file, a handler reference."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration key or value is wrong."""


class ConnectError(GaplessError):
    """The database rejects us, or is not one that gapless can use; waiting does not help."""

    exit_code = 2


class UnreachableError(ConnectError):
    """The database cannot be reached now; nothing was done, and the failure may pass by waiting."""

    exit_code = 3


class HiddenError(UnreachableError):
    """Row security hides rows of the schema: hidden rows look the same as missing ones."""


class ResourceError(UnreachableError):
    """A resource that handlers share cannot be opened now: no event's fault, and retried."""


class SchemaError(GaplessError):
    """The gapless schema is missing, older or newer than this program."""

    exit_code = 2


class RefusedError(UsageError):
    """Raised when the database rejects a request; the message is one line.

    sqlstate: GL400 invalid; GL404 not found; GL409 in conflict with the existing state; GL410 a
    thing that it needs is gone; GL422 a key that came with other contents; GL423 another session
    is at work on it.
    """

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class PublishError(UsageError):
    """An event cannot be stored as it is, or there is no such topic; nothing was written for it."""


class InvalidPayloadError(PublishError):
    """A payload does not fit the schema of its topic and type; nothing was written for it.

    mismatch: `pointer` to the value, `keyword` into the schema (JSON pointers), reason.
    event: its index among several events, from 0; None: the only one. schema: version and subject.
    """

    def __init__(self, message: str, mismatch: Any, *, event: int | None, schema: str) -> None:
        super().__init__(message if event is None else f"event {event + 1} of many: {message}")
        self.mismatch = mismatch
        self.event = event
        self.schema = schema


class UncheckedError(PublishError):
    """A payload cannot be checked: the schema is unreadable, or the library for it is missing.

    Nothing was written for it, and it may be valid.
    """


class WaitError(GaplessError):
    """A group has not handled the awaited events; `state` as in gapless.transaction_state().

    group: the one that has not, of the named groups.
    """

    def __init__(self, message: str, *, state: str, group: str) -> None:
        super().__init__(message)
        self.state = state
        self.group = group


class ReplyError(GaplessError):
    """No reply to a request came in time; it may be handled all the same."""


class HoleError(GaplessError):
    """The rows read do not equal the range claimed (I3): the partition must not continue.

    missing_id: the first missing event, if that is known. whole: the number of events of whole
    units before the hole in the range; they can be handled. first_offset: of the range.
    """

    def __init__(
        self,
        message: str,
        *,
        missing_id: int | None = None,
        whole: int = 0,
        first_offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.missing_id = missing_id
        self.whole = whole
        self.first_offset = first_offset


class OverrunError(HoleError):
    """Retention dropped events that the group had not handled, as retention was configured to."""


class BeyondError(HoleError):
    """The group is beyond the end of the log: events up to its offset would not be handled.

    log_end: the offset that the next event had when this was found.
    """

    def __init__(self, message: str, *, log_end: int) -> None:
        super().__init__(message)
        self.log_end = log_end


class UnplacedError(HoleError):
    """The group's row of consumer_offsets is gone: its progress is unknown."""

    def __init__(self, place: str) -> None:
        super().__init__(
            "the group has lost its offset, its row of consumer_offsets is gone: gapless seek "
            f"{place} --earliest --pause --yes handles all there is once more, @OFFSET continues "
            "there"
        )


class FencedError(GaplessError):
    """A newer owner holds this partition (I7); the caller must stop at once."""


class ReceiptError(GaplessError):
    """A receipt holds nothing any more (Q2).

    Its time ran out and another client took the event, the event was finished or released, or the
    group moved.
    """


class BlockedError(GaplessError):
    """Under onFailure block: the unit at `place` failed, and none may pass it; try again later.

    first_offset: the unit's; 0: units are not to blame.
    """

    def __init__(self, place: str, error: BaseException | str, first_offset: int = 0) -> None:
        kind = "" if isinstance(error, str) else f"{type(error).__name__}: "
        super().__init__(f"blocked at {place}: {kind}{error}")
        self.place = place
        self.error = error
        self.first_offset = first_offset


class UnreadyError(BlockedError):
    """The unit may not be to blame, as for a missing table: it is retried before the policy."""

    def __init__(self, place: str, error: BaseException) -> None:
        super().__init__(place, error)
        state = getattr(error, "sqlstate", "?")
        why = (str(error).splitlines() or ["?"])[0]
        text = limit_met(error) or (
            f"a statement of its handler was cancelled, by a timeout or by somebody: {why}"
            if state == "57014"
            else f"the database is not as the handler expects it: SQLSTATE {state}, {why}: "
            "grant or create it, or deploy what does without"
        )
        self.args = (f"{place}: {text}; it is tried for a while, then the policy holds",)


class ReceiverError(BlockedError):
    """The receiver of a handler takes nothing now: its units wait in place, no attempt counts.

    place: the receiver.
    """

    def __init__(self, place: str, error: BaseException | str) -> None:
        super().__init__(place, error)
        self.args = (f"{place}: {error}",)


def one_line(error: BaseException) -> str:
    """Return the text of an error on one line, at most 500 characters of it; never empty."""
    return " ".join(str(error).split())[:500] or type(error).__name__


_LIMITS = {
    "25P03": "idle_in_transaction_session_timeout ended the session, whose transaction was idle "
    "for longer: be faster between two statements, or raise it",
    "25P04": "transaction_timeout ended the session, whose transaction took longer: be faster, "
    "or raise it",
    "53100": "the database's disk is full: make room there, and all continues by itself",
    "53200": "the database is out of memory, or of the locks that it has room for: give it more "
    "(max_locks_per_transaction), or have less at work",
    "53300": "the database takes no more connections: raise max_connections, or have fewer",
    "57P05": "idle_session_timeout ended the session, which had nothing to do for longer: "
    "set it to 0 for the roles of gapless",
}


def limit_met(error: BaseException) -> str | None:
    """Name the limit of the database that an error met, and the remedy; None: it met none."""
    for each in (error, error.__cause__):
        state = getattr(each, "sqlstate", None) or ""
        if state in _LIMITS:
            said = str(each).splitlines() or [""]
            return f"{_LIMITS[state]} (SQLSTATE {state}: {said[0]})"
    return None
