"""A log with a group, and commands."""

from support.records import command, orders, refused

__all__ = ["command", "orders", "refused"]
