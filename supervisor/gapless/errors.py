"""Every error gapless raises on purpose; its text is the one line a person reads.

A message says what is wrong, where, and what to do. The command line prints it without a
traceback and exits with `exit_code`.
"""

from __future__ import annotations

from typing import Any


class GaplessError(Exception):
    """Something a person can mend; `exit_code` is what the command line ends with."""

    exit_code = 1


class UsageError(GaplessError):
    """The input was wrong: a name, a value, a file, a handler reference."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration key or value is wrong."""


class ConnectError(GaplessError):
    """The database refuses us, or is not one gapless can use; waiting does not help."""

    exit_code = 2


class UnreachableError(ConnectError):
    """The database cannot be reached now; nothing was done, and it may pass by waiting."""

    exit_code = 3


class HiddenError(UnreachableError):
    """Row security hides rows of the schema: what is there cannot be told from what is not."""


class ResourceError(UnreachableError):
    """A resource that handlers share cannot be opened now: no event's fault, tried again."""


class SchemaError(GaplessError):
    """The gapless schema is missing, older or newer than this program."""

    exit_code = 2


class RefusedError(UsageError):
    """The database refuses what was asked, in a line of its own.

    sqlstate: GL400 it makes no sense, GL404 it is not there, GL409 it does not go with what is
    there, GL410 what it needs is gone, GL422 a key that came
    with other contents, GL423 somebody else is at it now.
    """

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class PublishError(UsageError):
    """An event cannot be stored as it is, or there is no such topic; nothing was written for it."""


class InvalidPayloadError(PublishError):
    """A payload does not fit the schema of its topic and type; nothing was written for it.

    mismatch: what it is: `pointer` to the value, `keyword` into the schema (JSON pointers), reason.
    event: which of many, from 0; None: the only one. schema: the version and what it is of.
    """

    def __init__(self, message: str, mismatch: Any, *, event: int | None, schema: str) -> None:
        super().__init__(message if event is None else f"event {event + 1} of many: {message}")
        self.mismatch = mismatch
        self.event = event
        self.schema = schema


class UncheckedError(PublishError):
    """A payload cannot be checked: nobody can read the schema, or the library for it is missing.

    Nothing was written for it, and it may be right.
    """


class WaitError(GaplessError):
    """A group has not handled what was waited for; `state` as gapless.transaction_state() says.

    group: the one that has not, of those that were named.
    """

    def __init__(self, message: str, *, state: str, group: str) -> None:
        super().__init__(message)
        self.state = state
        self.group = group


class ReplyError(GaplessError):
    """Nobody has replied to a request in time; it may be handled all the same."""


class HoleError(GaplessError):
    """The rows read do not equal the range claimed (I3): the partition must not continue.

    missing_id: the first event that is not there, if that is known. whole: so many events of whole
    units stand before the hole in the range; they can be handled. first_offset: of the range.
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
    """Retention dropped events that the group had not handled, as it was told to."""


class BeyondError(HoleError):
    """The group is beyond the end of the log: what comes up to its offset would not be handled.

    log_end: the offset that the next event had when that was found.
    """

    def __init__(self, message: str, *, log_end: int) -> None:
        super().__init__(message)
        self.log_end = log_end


class UnplacedError(HoleError):
    """The group's row of consumer_offsets is gone: nobody knows how far it was."""

    def __init__(self, place: str) -> None:
        super().__init__(
            "the group has lost its offset, its row of consumer_offsets is gone: gapless seek "
            f"{place} --earliest --pause --yes handles all there is once more, @OFFSET continues "
            "there"
        )


class FencedError(GaplessError):
    """A newer owner holds this partition (I7); whoever gets this must stop at once."""


class ReceiptError(GaplessError):
    """A receipt holds nothing any more (Q2).

    Its time was over and another took the event, it was finished or released, or the group moved.
    """


class BlockedError(GaplessError):
    """Under onFailure block: the unit at `place` failed, and nothing passes it; try again later."""

    def __init__(self, place: str, error: BaseException | str) -> None:
        kind = "" if isinstance(error, str) else f"{type(error).__name__}: "
        super().__init__(f"blocked at {place}: {kind}{error}")
        self.place = place
        self.error = error


class UnreadyError(BlockedError):
    """It may be no fault of the unit, as a missing table is: tried again before the policy."""

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
    """What a handler sends to takes nothing now: its units wait in place, no attempt counts.

    place: who that is.
    """

    def __init__(self, place: str, error: BaseException | str) -> None:
        super().__init__(place, error)
        self.args = (f"{place}: {error}",)


def one_line(error: BaseException) -> str:
    """Return the text of an error on one line, 500 characters of it at most; never nothing."""
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
    """Say at which limit of the database's an error was raised, and what helps; None: at none."""
    for each in (error, error.__cause__):
        state = getattr(each, "sqlstate", None) or ""
        if state in _LIMITS:
            said = str(each).splitlines() or [""]
            return f"{_LIMITS[state]} (SQLSTATE {state}: {said[0]})"
    return None
