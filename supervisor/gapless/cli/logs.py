"""Log lines of a supervisor and its children: plain text for people, JSON for collectors."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(form: str) -> None:
    """Send the log to stderr as lines: `json`, or else text."""
    as_json = form == "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Json()
        if as_json
        else logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S")
    )
    root = logging.getLogger("gapless")
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    root.propagate = False
