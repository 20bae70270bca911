"""Logs that are sequenced, or stand still."""

from support.logs import sequenced, still
from support.two_partitions import world

__all__ = ["sequenced", "still", "world"]
