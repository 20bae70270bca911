"""A log with a group whose minutes are recorded one by one, and commands."""

from support.records import command, orders

__all__ = ["command", "orders"]
