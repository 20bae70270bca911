"""The contents of sql/locks.json: the measured locks of each file of the schema."""

from __future__ import annotations

import json
from typing import Any

from gapless.db.queries import sql_root


def locks() -> dict[str, dict[str, dict[str, str]]]:
    """Return the locks that each file takes on existing tables: `kind/name`, table, facts."""
    found: dict[str, dict[str, dict[str, str]]] = _facts().get("files", {})
    return found


def functions_gone() -> list[str]:
    """Return the names of functions that older programs had, and this one lacks."""
    found: list[str] = _facts().get("gone", [])
    return found


def _facts() -> dict[str, Any]:
    path = sql_root() / "locks.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}
