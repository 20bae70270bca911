"""The step is tested through a `world` (topic, log, effects) and a `group` that works on it."""

from support.worlds import group, shared_world, world

__all__ = ["group", "shared_world", "world"]
