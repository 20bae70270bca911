"""Journeys begin in the world of the step's own tests."""

from __future__ import annotations

from stage.consume.conftest import group, world

__all__ = ["group", "world"]
