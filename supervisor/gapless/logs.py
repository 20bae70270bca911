"""Log lines that name their subject: fields for systems that collect logs.

`gapless run --log-format json` writes lines of JSON, of gapless and of the program's own loggers.
A program that sets up logging itself adds LogFields to its handlers, and gets the fields in every
record.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from gapless.keys import Assignment, Partition
from gapless.log.cause import current_origin, parse_cause
from gapless.telemetry.spans import current_ids

FIELDS = ("group", "topic", "partition", "offset", "epoch", "trace_id", "span_id")
"""The attributes that each record gets; None for an unknown one."""

_Place = tuple[str, str, int]


class _AtWork:
    """The work of this process: the epoch of each partition, and the one that has its turn now."""

    def __init__(self) -> None:
        self.epochs: dict[_Place, int] = {}
        self.turn: Partition | None = None


_at_work = _AtWork()


def owns(assignment: Assignment) -> None:
    """Note the epoch by which this process works on a partition."""
    _at_work.epochs[_place(assignment.partition)] = assignment.epoch


def has_turn(partition: Partition | None) -> None:
    """Note the partition to which log records outside of handlers belong from now on."""
    _at_work.turn = partition


class LogFields(logging.Filter):
    """Puts FIELDS into each record: those of the unit that is handled at that moment.

    Add it to a handler of logging, not to a logger: records of loggers below would bypass it. A
    record that already has one of the fields keeps it. No record is dropped.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        known = dict(_known())
        for name in FIELDS:
            if not hasattr(record, name):
                setattr(record, name, known.get(name))
        return True


class JsonFormatter(logging.Formatter):
    """A JSON object a line: ts (UTC), level, logger, pid, message, exception, FIELDS and more."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """Lines that cannot drive a terminal, whatever an event put into the text of an error."""

    def format(self, record: logging.LogRecord) -> str:
        return "".join(
            each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode()
            for each in super().format(record)
        )


def set_up_logs(form: str) -> None:
    """Send the log to stderr as lines: `json`, or otherwise text.

    As JSON, the program's own loggers are written, too, unless it has set up logging itself.
    """
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.addFilter(LogFields())
        handler.setFormatter(JsonFormatter())
    else:
        text = "%(asctime)s %(levelname)-7s %(message)s"
        handler.setFormatter(TextFormatter(text, datefmt="%H:%M:%S"))
    ours = logging.getLogger("gapless")
    ours.handlers = [handler]
    ours.setLevel(logging.INFO)
    ours.propagate = False
    everything = logging.getLogger()
    if form == "json" and not everything.handlers:
        everything.addHandler(handler)
        everything.setLevel(logging.INFO)


def _known() -> Iterator[tuple[str, object]]:
    origin = current_origin()
    cause = None if origin is None else parse_cause(origin.idempotency_key)
    if cause is not None:
        place: _Place | None = (cause.group, cause.topic, cause.partition)
        yield "offset", cause.offset
    else:
        place = None if _at_work.turn is None else _place(_at_work.turn)
    if place is not None:
        yield from zip(FIELDS, place, strict=False)
        yield "epoch", _at_work.epochs.get(place)
    ids = current_ids()
    if ids is not None:
        yield "trace_id", ids[0]
        yield "span_id", ids[1]


def _place(partition: Partition) -> _Place:
    return partition.group_id, partition.topic, partition.partition_id
