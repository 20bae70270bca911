"""Filters are tested in the world of the step."""

from support.worlds import group, shared_world, world

__all__ = ["group", "shared_world", "world"]
