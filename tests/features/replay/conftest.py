"""A log with a group, and commands."""

from __future__ import annotations

from support.records import command, orders

__all__ = ["command", "orders"]
