"""A supervisor that is watched."""

from support.watched import orders, watch

__all__ = ["orders", "watch"]
