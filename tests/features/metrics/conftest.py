"""A supervisor that is measured."""

from support.watched import calls, orders, watch

__all__ = ["calls", "orders", "watch"]
