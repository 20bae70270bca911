"""Names that look like settings and are none: an error in a config file, elsewhere a warning.

An environment is shared with other programs and a light-4j values file with other sections, so
only names that begin with our sections are checked there.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from gapless.errors import ConfigError
from gapless.settings.declare import CLASSIC_SECTION, SECTION, environment_name
from gapless.settings.record import RETIRED, catalog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gapless.settings.document import Document
    from gapless.settings.source import Surroundings

# Variables that gapless reads outside its settings.
_OPERATIONAL = frozenset({"GAPLESS_HOME", "GAPLESS_PG_BINDIR", "GAPLESS_DEBUG"})
_OPERATIONAL_PREFIX = "GAPLESS_TEST_"

_SECTIONS = (SECTION, CLASSIC_SECTION)
_CLOSE_ENOUGH = 0.7  # of 1: "timeout" is not close to "topic", "batch_sise" is to "batchSize"


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant; case and punctuation do not count."""
    import difflib  # noqa: PLC0415 - few words are strange

    by_plain = {_plain(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_plain(word), by_plain, n=1, cutoff=_CLOSE_ENOUGH)
    return by_plain[close[0]] if close else None


def hint(meant: str | None) -> str:
    """Return "; did you mean 'x'?", or "" if no word is close."""
    return f"; did you mean '{meant}'?" if meant else ""


def refuse_unknown_keys(config: Document) -> None:
    """Raise ConfigError for the first key of a config file that is no setting."""
    for entry in config.entries.values():
        if entry.key not in catalog() and entry.key not in RETIRED:
            raise ConfigError(
                f"{config.place(entry)}: unknown key {entry.key!r}"
                f"{hint(closest(entry.key, catalog()))}"
            )


def warn_of_retired(config: Document, outside: Surroundings) -> Iterator[str]:
    """Warn once of each key without a meaning, wherever it is set; its value is ignored."""
    for key, reason in RETIRED.items():
        entry = config.entries.get(key)
        places = [config.place(entry)] if entry else []
        found = outside.each(tuple(f"{section}.{key}" for section in _SECTIONS))
        places += [each.source for each in chain(*found)]
        if places:
            yield f"{key} is ignored ({', '.join(places)}): {reason}"


def warn_of_strangers(outside: Surroundings, mentioned: Iterable[str]) -> Iterator[str]:
    """Warn of unused names in our sections; `mentioned` are the names in placeholders."""
    known = {f"{section}.{key}" for section in _SECTIONS for key in RETIRED}.union(mentioned)
    known.update(*(setting.names for setting in catalog().values()))
    variables = _OPERATIONAL.union(map(environment_name, known))
    for section in _SECTIONS:
        prefix = environment_name(f"{section}.")
        for name in sorted(outside.environ.keys() - variables):
            if name.startswith(prefix) and not name.startswith(_OPERATIONAL_PREFIX):
                meant = _meant(section, name.removeprefix(prefix))
                meant = meant and environment_name(meant)
                yield f"environment variable {name!r} is no setting{hint(meant)}"
        for key, entry in outside.values.entries.items():
            if f"{key}.".startswith(f"{section}.") and key not in known:
                place = f"values file {outside.values.place(entry)}"
                yield f"{place}: {key!r} is no setting{_remedy(section, key)}"


def _remedy(section: str, key: str) -> str:
    if key == section:
        return f"; write one flat key each, as '{section}.{_keys(section)[0]}: …'"
    return hint(_meant(section, key.removeprefix(f"{section}.")))


def _meant(section: str, word: str) -> str | None:
    """Return the name of the setting that was probably meant, with its section."""
    meant = closest(word, _keys(section))
    return meant and f"{section}.{meant}"


def _keys(section: str) -> list[str]:
    return [key for key, setting in catalog().items() if f"{section}.{key}" in setting.names]


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())
