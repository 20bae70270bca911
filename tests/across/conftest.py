"""What is about several rooms at once begins with a log."""

from __future__ import annotations

from support.logs import sequenced, still

__all__ = ["sequenced", "still"]
