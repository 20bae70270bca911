"""The sources of a value besides the config file: the environment and the values file.

The environment name of `db-event-consumer.batchSize` is DB_EVENT_CONSUMER_BATCHSIZE. A classic
setting has two names, and both are looked up in the environment before either in the values file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless.settings.declare import environment_name
from gapless.settings.document import Document
from gapless.settings.placeholder import Resolved
from gapless.settings.record import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def rivals(values: list[Resolved]) -> Iterator[str]:
    """Warn of values of a setting that said() found and that do not win."""
    winner, *others = values
    for rival in others:
        if rival.value != winner.value:
            yield f"{rival.source} is ignored: {winner.source} says otherwise and wins"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment and the values file as one source of values; a Lookup when called."""

    environ: Mapping[str, str]
    values: Document = field(default_factory=Document)

    def __call__(self, name: str) -> Resolved | None:
        """Find the value of a name; any name of a setting finds the setting's value."""
        known = (setting.names for setting in catalog().values() if name in setting.names)
        environment, file = self.each(next(known, (name,)))
        return next(iter(environment or file), None)

    def each(self, names: tuple[str, ...]) -> tuple[list[Resolved], list[Resolved]]:
        """Return the values of these names in the environment, and in the file; the first wins."""
        environment = [
            Resolved(value=self.environ[variable], source=f"environment {variable}")
            for variable in map(environment_name, names)
            if variable in self.environ
        ]
        if not (entries := self.values.entries):
            return environment, []
        found = (entries[name] for name in names if name in entries)
        place = self.values.place
        return environment, [
            Resolved(value=each.raw, source=f"values file {place(each)}") for each in found
        ]

    def said(self) -> dict[str, list[Resolved]]:
        """Return the settings that have a value here, by key: the winner, and its rivals.

        Rivals are values under the setting's other name, in the same source.
        """
        sources = {key: self.each(setting.names) for key, setting in catalog().items()}
        return {key: found for key, (first, last) in sources.items() if (found := first or last)}
