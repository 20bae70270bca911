"""A log with a group whose minutes are recorded one by one, commands, gateways and supervisors."""

from support.gateways import open_gateway
from support.records import command, orders
from support.supervisors import runs

__all__ = ["command", "open_gateway", "orders", "runs"]
