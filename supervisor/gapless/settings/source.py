"""Where a name may have a value besides the config file: the environment and the values file.

The environment name of `db-event-consumer.batchSize` is DB_EVENT_CONSUMER_BATCHSIZE. A classic
setting has two names, and both are asked in the environment before either in the values file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless.settings.document import Document
from gapless.settings.placeholder import Resolved
from gapless.settings.record import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMES_OF = {name: setting.names for setting in CATALOG.values() for name in setting.names}


def environment_name(name: str) -> str:
    """Give the variable for a name, as light-4j does: upper case, all else an underscore."""
    return re.sub(r"[^A-Za-z0-9]", "_", name).upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The environment and the values file as one source of values; a Lookup when called."""

    environ: Mapping[str, str]
    values: Document = field(default_factory=Document)

    def __call__(self, name: str) -> Resolved | None:
        """Find the value of a name; any name of a setting finds the setting's value."""
        return next(self.each(_NAMES_OF.get(name, (name,))), None)

    def each(self, names: tuple[str, ...]) -> Iterator[Resolved]:
        """Give every value that these names have, the one that wins first."""
        yield from self._in_environment(names)
        yield from self._in_values(names)

    def rivals(self, names: tuple[str, ...]) -> Iterator[str]:
        """Warn where two names of one setting have different values in the same source."""
        found = list(self._in_environment(names)) or list(self._in_values(names))
        for rival in found[1:]:
            if rival.value != found[0].value:
                yield f"{rival.source} is ignored: {found[0].source} says otherwise and wins"

    def _in_environment(self, names: tuple[str, ...]) -> Iterator[Resolved]:
        for variable in map(environment_name, names):
            if variable in self.environ:
                yield Resolved(value=self.environ[variable], source=f"environment {variable}")

    def _in_values(self, names: tuple[str, ...]) -> Iterator[Resolved]:
        for name in names:
            if entry := self.values.entries.get(name):
                yield Resolved(value=entry.raw, source=f"values file {self.values.place(entry)}")
