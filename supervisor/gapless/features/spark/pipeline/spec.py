"""The target of a pipeline as its file declares it, and the kinds of values that the file has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from gapless.errors import ConfigError
from gapless.settings import is_reference

FOLDERS = ("parquet", "delta")  # file targets, which any reader may read
_LAKES = ("partitionBy", "mode", "key", "delete", "addColumns")
_TARGETS = {
    "parquet": ("parquet", "partitionBy"),
    "delta": ("delta", *_LAKES),
    "iceberg": ("iceberg", "catalog", *_LAKES),
    "table": ("table", "key", "add", "min", "max", "avg", "url"),
    "topic": ("topic",),
}
_DAY = re.compile(r"day\((.+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    """The target of a pipeline.

    where: a folder, a table or a topic. partition_by, days: columns, and those of which the day is
    taken, as columns of their own. key: the columns that name a row. add, lowest, highest, means:
    how other columns of a table are merged with an existing row (table.py); a mean has a sum and a
    count, which are in `add`. is_upsert, delete,
    adds_columns: a keyed merge (merge.py). catalog: of Iceberg, by the name that its configuration
    has, or with properties of its own, which may be references. url: a reference to the DSN of
    another database (settings/reference.py).
    """

    kind: Literal["parquet", "delta", "iceberg", "table", "topic"]
    where: str
    partition_by: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    lowest: tuple[str, ...] = ()
    highest: tuple[str, ...] = ()
    means: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    is_upsert: bool = False
    delete: str | None = None
    adds_columns: bool = False
    catalog: str = "default"
    catalog_properties: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.where}" + (f" at {self.url}" if self.url else "")

    @property
    def is_folder(self) -> bool:
        """Whether files are written."""
        return self.kind in FOLDERS

    @property
    def commits_apart(self) -> bool:
        """Whether its rows and the pipeline's position are two commits, the rows' the first."""
        return self.kind == "iceberg" or self.is_upsert or self.url is not None

    @property
    def form(self) -> str:
        """The kind, and whether it is merged into: a batch under way is finished by the same."""
        return f"{self.kind} upsert" if self.is_upsert else self.kind


def read_target(place: str, given: Any) -> TargetSpec:
    """Check and parse `to`. Raises ConfigError in one line, with the place."""
    kinds = [kind for kind in _TARGETS if isinstance(given, dict) and kind in given]
    if len(kinds) != 1:
        raise ConfigError(
            f"{place}: one of parquet: FOLDER, delta: FOLDER, iceberg: TABLE, table: NAME, "
            "topic: NAME"
        )
    kind = kinds[0]
    options = mapping(place, given, _TARGETS[kind])
    where = text(place, options, kind)
    if not where:
        raise ConfigError(f"{place}.{kind} is empty")
    is_upsert = _is_upsert(place, options)
    key = words(place, options, "key")
    merges = {name: words(place, options, name) for name in ("add", "min", "max")}
    means = _means(place, options)
    of_means = (name for pair in means.values() for name in pair)
    merges["add"] = tuple(dict.fromkeys((*merges["add"], *of_means)))
    _require_key(place, options, key, is_upsert=is_upsert)
    _require_once(place, [*key, *(name for names in merges.values() for name in names), *means])
    catalog = _catalog(place, options)
    parts, days = _parts(words(place, options, "partitionBy"))
    return TargetSpec(
        kind=kind,  # type: ignore[arg-type] # it is a key of _TARGETS
        where=where,
        partition_by=parts,
        days=days,
        key=key,
        add=merges["add"],
        lowest=merges["min"],
        highest=merges["max"],
        means=means,
        is_upsert=is_upsert,
        delete=text(place, options, "delete"),
        adds_columns=flag(place, options, "addColumns"),
        catalog=catalog.pop("name", "default"),
        catalog_properties=catalog,
        url=_url(place, options),
    )


def _url(place: str, options: Mapping[str, Any]) -> str | None:
    url = text(place, options, "url")
    if url is None or is_reference(url):
        return url
    raise ConfigError(
        f"{place}.url names where the DSN is, as env:NAME or file:/path: a DSN in a file of "
        "pipelines would show its password"
    )


def day_column(column: str) -> str:
    """Return the name of the column that has the day of `column`, as Iceberg names it."""
    return f"{column}_day"


def mapping(place: str, given: Any, keys: tuple[str, ...]) -> Mapping[str, Any]:
    """Return a mapping with none but these keys. Raises ConfigError."""
    if not isinstance(given, dict):
        raise ConfigError(f"{place}: keys are wanted here: {', '.join(keys)}")
    # YAML 1.1 reads a bare `on` and `yes` as true; none of our keys is one of them.
    for key in given:
        if key not in keys:
            close = get_close_matches(str(key), keys, n=1)
            meant = f"; did you mean {close[0]}?" if close else f": {', '.join(keys)}"
            raise ConfigError(f"{place}: there is no key {key!r}{meant}")
    return given


def text(place: str, options: Mapping[str, Any], key: str) -> str | None:
    """Return a text, or None without the key. Raises ConfigError."""
    value = options.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ConfigError(f"{place}.{key}: text is wanted, not {value!r}")


def words(place: str, options: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return a word, or a list of words; none without the key. Raises ConfigError."""
    value = options.get(key, [])
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
        raise ConfigError(f"{place}.{key}: a word or a list of words, not {value!r}")
    return tuple(items)


def flag(place: str, options: Mapping[str, Any], key: str) -> bool:
    """Return true or false, which it is without the key. Raises ConfigError."""
    value = options.get(key, False)
    if isinstance(value, bool):
        return value
    raise ConfigError(f"{place}.{key}: true or false, not {value!r}")


def _is_upsert(place: str, options: Mapping[str, Any]) -> bool:
    mode = options.get("mode", "append")
    if mode not in ("append", "upsert"):
        raise ConfigError(f"{place}.mode: append or upsert, not {mode!r}")
    return bool(mode == "upsert")


def _require_key(
    place: str, options: Mapping[str, Any], key: tuple[str, ...], *, is_upsert: bool
) -> None:
    """Raise ConfigError for merges without the columns that name a row, and keys without one."""
    if is_upsert and not key:
        raise ConfigError(f"{place}.mode: upsert needs key, the columns that name a row")
    for name in ("add", "min", "max", "avg"):
        if name in options and not key:
            raise ConfigError(f"{place}.{name}: {name} needs key, the columns that name a row")
    for name in ("key", "delete"):
        if not is_upsert and "table" not in options and name in options:
            raise ConfigError(f"{place}.{name}: rows are only appended: add mode: upsert")


def _require_once(place: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{place}: column {name!r} is named twice: a column has one merge")


def _means(place: str, options: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    given = options.get("avg", {})
    if not isinstance(given, dict):
        raise ConfigError(f"{place}.avg: column: [sum, count] is wanted, not {given!r}")
    found: dict[str, tuple[str, str]] = {}
    for name in given:
        match words(f"{place}.avg", given, name):
            case (total, count):
                found[str(name)] = (total, count)
            case _:
                raise ConfigError(f"{place}.avg.{name}: [sum, count], the names of two columns")
    return found


def _catalog(place: str, options: Mapping[str, Any]) -> dict[str, str]:
    given = options.get("catalog", {})
    if isinstance(given, str):
        return {"name": given}
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise ConfigError(f"{place}.catalog: a name is wanted, or properties, as uri: env:NAME")
    return {str(name): value for name, value in given.items()}


def _parts(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns of folders, and those of which `day(...)` takes the day."""
    days = tuple(match[1] for match in map(_DAY.fullmatch, names) if match)
    return tuple(_DAY.sub(lambda match: day_column(match[1]), name) for name in names), days
