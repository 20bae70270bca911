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
    from collections.abc import Iterable, Iterator, Mapping


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
        return next(self.each(next(known, (name,))), None)

    def each(self, names: tuple[str, ...]) -> Iterator[Resolved]:
        """Yield every value that these names have, the winner first."""
        yield from self._in_environment(map(environment_name, names))
        yield from self._in_values(names)

    def said(self) -> dict[str, list[Resolved]]:
        """Return the settings that have a value here, by key: the winner, and its rivals.

        Rivals are values under the setting's other name, in the same source.
        """
        found = {}
        for key, setting in catalog().items():
            values = list(self._in_environment(setting.variables))
            if values := values or list(self._in_values(setting.names)):
                found[key] = values
        return found

    def _in_environment(self, variables: Iterable[str]) -> Iterator[Resolved]:
        for variable in variables:
            if variable in self.environ:
                yield Resolved(value=self.environ[variable], source=f"environment {variable}")

    def _in_values(self, names: Iterable[str]) -> Iterator[Resolved]:
        for name in names:
            if entry := self.values.entries.get(name):
                yield Resolved(value=entry.raw, source=f"values file {self.values.place(entry)}")
