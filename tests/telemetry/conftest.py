"""A supervisor that is watched."""

from __future__ import annotations

from support.watched import orders, watch

__all__ = ["orders", "watch"]
