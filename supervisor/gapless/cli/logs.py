"""Log lines of a supervisor and its children: plain text for people, JSON for collectors."""

from __future__ import annotations

import logging
import sys

from gapless.logs import JsonFormatter, LogFields


def set_up_logs(form: str) -> None:
    """Send the log to stderr as lines: `json`, or else text.

    As JSON the program's own loggers are written, too, unless it has set up logging itself.
    """
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        handler.addFilter(LogFields())
        handler.setFormatter(JsonFormatter())
    else:
        text = "%(asctime)s %(levelname)-7s %(message)s"
        handler.setFormatter(logging.Formatter(text, datefmt="%H:%M:%S"))
    ours = logging.getLogger("gapless")
    ours.handlers = [handler]
    ours.setLevel(logging.INFO)
    ours.propagate = False
    everything = logging.getLogger()
    if form == "json" and not everything.handlers:
        everything.addHandler(handler)
        everything.setLevel(logging.INFO)
