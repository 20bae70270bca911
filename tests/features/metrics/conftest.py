"""A supervisor that is measured."""

from __future__ import annotations

from support.watched import calls, orders, watch

__all__ = ["calls", "orders", "watch"]
