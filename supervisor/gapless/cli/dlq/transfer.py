"""`dlq export` and `dlq import`: units as JSON lines, one a line, mended in between or not.

What comes back is put into the dead letter queue in place of what is there; only redrive has it
handled. --publish publishes the events anew instead, one transaction for each unit: in another
database, or for all groups.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gapless.cli.context import open_connection
from gapless.cli.dlq.change import me
from gapless.cli.dlq.filters import events_of, find, require
from gapless.cli.dlq.show import unit_json
from gapless.cli.place import Place, spell
from gapless.cli.progress import Steps
from gapless.cli.screen import note, say
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.text import count, to_json

if TYPE_CHECKING:
    from psycopg import Connection

_TEXTS = ("key", "event_type", "host_id", "user_id")


def export(args: argparse.Namespace) -> int:
    """Write the units that the filters choose as JSON lines, in the order of their offsets."""
    with open_connection(args, "dlq") as conn, _output(args.file) as out:
        found = sorted(
            find(conn, args, limit=None), key=lambda u: (u.group, u.topic, u.partition, u.offset)
        )
        with Steps("export", len(found), f"; {args.file} is not complete") as steps:
            for n, row in enumerate(found, start=1):
                place = Place(
                    group=row.group, topic=row.topic, partition=row.partition, offset=row.offset
                )
                unit = require(conn, place)
                out.write(f"{unit_json(unit, events_of(conn, unit))}\n")
                steps.show(n)
    note(f"{count(len(found), 'unit')} exported")
    return 0


def import_(args: argparse.Namespace) -> int:
    """Take units in: put them back, or publish their events anew. All lines are read first."""
    with _input(args.file) as lines:
        try:
            units = [_Line(args.file, number, text) for number, text in enumerate(lines, start=1)]
        except UnicodeDecodeError as error:
            raise UsageError(f"{args.file}: {error}: nothing was changed") from error
    wanted = [unit for unit in units if not unit.is_blank]
    with open_connection(args, "dlq") as conn:
        if args.dry_run:
            return _would(args, wanted)
        counts: Counter[str] = Counter()
        # To publish twice would double events; to mend twice changes nothing.
        rest = (
            "; those lines must not be imported again"
            if args.publish
            else "; the same again is safe"
        )
        with Steps("import", len(wanted), rest) as steps:
            for n, unit in enumerate(wanted, start=1):
                outcome = unit.publish(conn) if args.publish else unit.put_back(conn)
                if outcome not in ("mended", "published"):
                    note(f"{unit.where}: {unit.place}: left alone ({outcome})")
                counts[outcome] += 1
                steps.show(n)
    if args.json:
        say(to_json(dict(counts)))
    else:
        if not wanted:
            note(f"{args.file} has no units")
        for outcome, number in sorted(counts.items()):
            say(f"{outcome}: {count(number, 'unit')}")
    return 0 if set(counts) <= {"mended", "published"} else 1


def _would(args: argparse.Namespace, units: Sequence[_Line]) -> int:
    note(f"nothing was changed: {count(len(units), 'unit')} would be taken in")
    if args.json:
        say(to_json({"dry_run": True, "units": [unit.place for unit in units]}))
    return 0


class _Line:
    """A line of the file: a unit as `dlq export` writes it. Raises UsageError for anything else."""

    def __init__(self, file: str, number: int, text: str) -> None:
        self.where = f"{'standard input' if file == '-' else file} line {number}"
        self.is_blank = not text.strip()
        if self.is_blank:
            return
        try:
            unit = dict(_pairs(_read(text)))
            self.group = _text(unit["group"])
            self.topic = _text(unit["topic"])
            self.partition = int(unit["partition"])
            self.offset = int(unit["offset"])
            self.events = [_event(dict(_pairs(event))) for event in unit["events"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            raise UsageError(
                f"{self.where} is not a unit as gapless dlq export writes it: {reason}; "
                "nothing was changed"
            ) from error

    @property
    def place(self) -> str:
        return spell(self.group, self.topic, self.partition, self.offset)

    def put_back(self, conn: Connection[Any]) -> str:
        """Put the unit back as a dead one; say what became of it."""
        row = conn.execute(
            query("dlq", "mend"),
            {
                "group": self.group,
                "topic": self.topic,
                "partition": self.partition,
                "offset": self.offset,
                "offsets": [event["offset"] for event in self.events],
                "event_types": [event["event_type"] for event in self.events],
                "headers": [event["headers"] for event in self.events],
                "payloads": [event["payload"] for event in self.events],
                "who": me(),
            },
        ).fetchone()
        assert row is not None
        return str(row[0])

    def publish(self, conn: Connection[Any]) -> str:
        """Publish the events as one new transaction; it commits with the unit."""
        from gapless.log.event import NewEvent  # noqa: PLC0415 - not for --help
        from gapless.log.publish import publish  # noqa: PLC0415 - not for --help

        with conn.transaction():
            publish(
                conn,
                self.topic,
                [
                    NewEvent(
                        payload=(event["payload"] or "null").encode(),
                        headers=None if event["headers"] is None else event["headers"].encode(),
                        **{name: event[name] for name in _TEXTS},
                    )
                    for event in self.events
                ],
            )
        return "published"


class _Number(str):
    """A number of a JSON text, as it was written."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """An object of a JSON text: its pairs as they stand, names that come twice included."""


def _read(text: str) -> Any:
    """Read JSON so that it can be written again as it was: dicts and floats would change it."""
    return json.loads(text, parse_float=_Number, parse_int=_Number, object_pairs_hook=_Object)


def _pairs(value: object) -> _Object:
    if not isinstance(value, _Object):
        raise TypeError(f"{str(value)[:40]!r} is not a JSON object")
    return value


def _event(event: dict[str, Any]) -> dict[str, Any]:
    return {
        "offset": int(event["offset"]),
        **{name: None if event.get(name) is None else _text(event[name]) for name in _TEXTS},
        **{name: _json(event.get(name)) for name in ("headers", "payload")},
    }


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} is not text")
    if not _is_unicode(value) or "\0" in value:
        raise ValueError(f"{value!r} has half a surrogate pair or a NUL")
    return value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json(value: object) -> str | None:
    """Write a JSON value again, its numbers as they were; null is none."""
    if value is None:
        return None
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Object):
        inside = (f"{_json(k)}: {_json(v) or 'null'}" for k, v in value)
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_json(item) or 'null' for item in value)}]"
    # Half a surrogate pair is good JSON, as an escape only.
    return json.dumps(value, ensure_ascii=isinstance(value, str) and not _is_unicode(value))


def _output(file: str) -> Any:
    return nullcontext(sys.stdout) if file == "-" else Path(file).open("x", encoding="utf-8")


def _input(file: str) -> Any:
    return nullcontext(_lines(sys.stdin)) if file == "-" else Path(file).open(encoding="utf-8")


def _lines(stream: IO[str]) -> Iterator[str]:
    yield from stream
