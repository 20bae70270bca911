"""A log with a group whose minutes are recorded one by one, commands, gateways and supervisors."""

from support.fleets import fleet
from support.gateways import open_gateway
from support.records import command, orders

__all__ = ["command", "fleet", "open_gateway", "orders"]
