"""A log with a group, and commands."""

from support.records import command, orders

__all__ = ["command", "orders"]
