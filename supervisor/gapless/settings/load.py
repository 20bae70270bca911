"""Finds, checks and explains the value of every setting.

The first source with a value decides: a flag, the environment, the values file, the config
file, the default.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gapless.errors import ConfigError
from gapless.settings.declare import Setting, settings_of
from gapless.settings.declared import Declared
from gapless.settings.document import Document, Nested, SettingEntry
from gapless.settings.kinds import RefusedValueError
from gapless.settings.placeholder import PlaceholderError, Resolved, expand, names_in
from gapless.settings.record import Settings, catalog
from gapless.settings.sections import ProcessSettings
from gapless.settings.source import Surroundings, rivals
from gapless.settings.stranger import (
    closest,
    hint,
    refuse_unknown_keys,
    warn_of_retired,
    warn_of_strangers,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DEFAULT_SOURCE = "default"
_FLAG_SOURCE = "flag"
_VALUES_FILE = "values.yml"
_NO_FLAGS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Checked settings, with notes for people about their sources."""

    settings: Settings
    warnings: tuple[str, ...]
    sources: Mapping[str, str]
    """For each key: "flag", "environment X", "values file F line N", "F line N" or "default"."""
    declared: tuple[Declared, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expanded:
    """A value before it is checked; `place` is set if it came through the config file's text."""

    raw: object
    source: str
    place: str = ""

    def refused(self, setting: Setting) -> ConfigError:
        where = f"{self.place}: " if self.place else ""
        origin = f" (from {self.source})" if self.source != self.place else ""
        shown = setting.kind.show(self.raw)
        return ConfigError(f"{where}{setting.key} is {shown}{origin}: must be {setting.kind.must}")


def load(
    path: Path | None,
    *,
    values: Path | None = None,
    environ: Mapping[str, str],
    overrides: Mapping[str, object] = _NO_FLAGS,
) -> Loaded:
    """Load and check all settings. Raises ConfigError with the first error.

    Without `path` there is no config file, only defaults and the sources before them. Without
    `values` a `values.yml` beside the config file is used if there is one. `overrides` are the
    flags, by attribute or key; None means that the flag was not given.
    """
    config = Document()
    if path is not None:
        config, values = _read(path), values or _beside(path)
        refuse_unknown_keys(config)
    outside = Surroundings(environ=environ, values=_read(values) if values else Document())
    flags = _flags(overrides)
    said = outside.said()
    spoken = flags.keys() | said.keys() | config.entries.keys()
    found = {
        key: _find(setting, flags, said, config, outside)
        for key, setting in catalog().items()
        if key in spoken
    }
    by_owner: dict[type, dict[str, Any]] = {Settings: {}}
    for key, each in found.items():
        setting = catalog()[key]
        by_owner.setdefault(setting.owner, {})[setting.attribute] = _check(setting, each)
    core = by_owner.pop(Settings)
    sections = (owner(**own) for owner, own in by_owner.items())
    settings = Settings(**core, sections=tuple(each for each in sections if each != type(each)()))
    sources = dict.fromkeys(catalog(), DEFAULT_SOURCE)
    sources |= {key: each.source for key, each in found.items()}
    _check_together(settings, sources)
    mentioned = {name for entry in config.entries.values() for name in _mentioned(entry)}
    warnings = [*warn_of_retired(config, outside), *warn_of_strangers(outside, mentioned)]
    for key, rival_values in said.items():
        if sources[key] != _FLAG_SOURCE:
            warnings += rivals(rival_values)
    return Loaded(
        settings=settings,
        warnings=tuple(warnings),
        sources=MappingProxyType(sources),
        declared=tuple(each.expanded(outside) for each in config.declared),
    )


def environment_schema(environ: Mapping[str, str]) -> str:
    """Return the schema in the environment, for a program that loads no settings.

    Raises ConfigError for a name that no schema of ours may have.
    """
    (setting,) = (each for each in settings_of(ProcessSettings) if each.key == "schema")
    for said in chain(*Surroundings(environ=environ).each(setting.names)):
        return str(_check(setting, _Expanded(raw=said.value, source=said.source)))
    return str(setting.default)


def _read(path: Path) -> Document:
    # Imported here so that a process that only uses the record does not load a YAML parser.
    from gapless.settings.reader import read_document  # noqa: PLC0415

    return read_document(path)


def _beside(path: Path) -> Path | None:
    """Return the values file beside a config file, if there is one."""
    beside = path.with_name(_VALUES_FILE)
    # lexists: a link that leads nowhere MUST be an error, not "no values file".
    return beside if os.path.lexists(beside) else None


def _flags(overrides: Mapping[str, object]) -> dict[str, object]:
    """Return the flags by key, without those that were not given."""
    keys = {setting.attribute: key for key, setting in catalog().items()}
    flags: dict[str, object] = {}
    for name, value in overrides.items():
        key = keys.get(name, name)
        if key not in catalog():
            raise ConfigError(f"there is no setting {name!r}{hint(closest(name, catalog()))}")
        if value is not None:
            flags[key] = value
    return flags


def _find(
    setting: Setting,
    flags: Mapping[str, object],
    said: Mapping[str, Sequence[Resolved]],
    config: Document,
    outside: Surroundings,
) -> _Expanded:
    """Find the value with the highest precedence, for a setting with one besides the default."""
    if setting.key in flags:
        return _Expanded(raw=flags[setting.key], source=_FLAG_SOURCE)
    entry = config.entries.get(setting.key)
    # Where the file's text has a placeholder with the setting's own name, environment and
    # values file come in through it, so the text around it is kept.
    if entry is None or (setting.key in said and set(setting.names).isdisjoint(_mentioned(entry))):
        winner = said[setting.key][0]
        return _Expanded(raw=winner.value, source=winner.source)
    return _expanded(entry, config.place(entry), outside)


def _mentioned(entry: SettingEntry) -> set[str]:
    texts = (entry.raw,) if isinstance(entry.raw, str) else entry.raw
    if texts is None or isinstance(texts, Nested):
        return set()
    return {name for text in texts for name in names_in(text)}


def _expanded(entry: SettingEntry, place: str, outside: Surroundings) -> _Expanded:
    """Expand the file's text; the source is the file unless one placeholder was all of it."""
    if entry.raw is None or isinstance(entry.raw, Nested):
        return _Expanded(raw=entry.raw, source=place, place=place)
    try:
        if isinstance(entry.raw, str):
            expansion = expand(entry.raw, outside)
            raw, sources = expansion.value, expansion.sources
            if expansion.is_whole and sources:
                return _Expanded(raw=raw, source=sources[0], place=place)
        else:
            parts = [expand(text, outside) for text in entry.raw]
            raw = tuple(part.value for part in parts)
            sources = tuple(source for part in parts for source in part.sources)
    except PlaceholderError as error:
        complaint = " ".join(str(error).split())  # one line, whatever the file's own words are
        raise ConfigError(f"{place}: {entry.key}: {complaint}") from error
    source = f"{place} with {', '.join(dict.fromkeys(sources))}" if sources else place
    return _Expanded(raw=raw, source=source, place=place)


def _check(setting: Setting, candidate: _Expanded) -> Any:
    try:
        return setting.kind.parse(candidate.raw)
    except RefusedValueError as error:
        raise candidate.refused(setting) from error


def _check_together(settings: Settings, sources: Mapping[str, str]) -> None:
    """Check conditions across settings: two heartbeats must fit into the time to live."""
    if 2 * settings.heartbeat_ms >= settings.member_ttl_ms:
        raise ConfigError(
            f"heartbeatMs is {settings.heartbeat_ms} (from {sources['heartbeatMs']}) and"
            f" memberTtlMs is {settings.member_ttl_ms} (from {sources['memberTtlMs']}):"
            " heartbeatMs must be less than half of memberTtlMs"
        )
