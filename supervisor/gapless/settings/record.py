"""All settings as one record: sections of the core, and those that features declare."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from gapless import feature
from gapless.settings.declare import Setting, settings_of
from gapless.settings.sections import (
    HandlingSettings,
    LogSettings,
    ProcessSettings,
    SharingSettings,
)

CORE = (ProcessSettings, LogSettings, HandlingSettings, SharingSettings)

RETIRED: Mapping[str, str] = MappingProxyType(
    {"partitionId": "supervisors share the partitions among themselves"}
)
"""Keys of light-portal's file without a meaning here, and why: ignored with a warning."""

_Section = TypeVar("_Section")


@dataclass(frozen=True, kw_only=True)
class Settings(SharingSettings, HandlingSettings, LogSettings, ProcessSettings):
    """All settings, found and checked by `load`; those of the core are attributes.

    The fields of a base come before those of the bases named ahead of it.
    sections: the sections of features in which some setting has another value than its default.
    """

    sections: tuple[object, ...] = ()

    def of(self, section: type[_Section]) -> _Section:
        """Return the settings that a feature declares."""
        return next((each for each in self.sections if isinstance(each, section)), section())

    def value(self, setting: Setting) -> Any:
        """Return the value of any setting."""
        home = self if setting.owner is Settings else self.of(setting.owner)
        return getattr(home, setting.attribute)

    def name_for_people(self) -> str:
        """Name the calling process in logs and status; never an identity, names may repeat."""
        return self.instance_name or f"{socket.gethostname()}-{os.getpid()}"


def sections() -> tuple[type, ...]:
    """Return the sections that features declare."""
    return tuple(feature.parts(lambda each: each.settings()))


@cache
def catalog() -> Mapping[str, Setting]:
    """Return every setting by its key in YAML: those of the core, then of each feature."""
    found = (setting for owner in (Settings, *sections()) for setting in settings_of(owner))
    return MappingProxyType({setting.key: setting for setting in found})
