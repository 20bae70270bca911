"""A topic of two partitions, and what tests of control need: a key for each, a log, a group."""

from support.two_partitions import world

__all__ = ["world"]
