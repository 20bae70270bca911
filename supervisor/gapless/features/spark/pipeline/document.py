"""The YAML that declares pipelines; all of it is checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gapless.errors import ConfigError, UsageError
from gapless.features.spark.columns import COLUMNS, parse_columns
from gapless.features.spark.conf import parse_conf
from gapless.features.spark.pipeline.spec import TargetSpec, read_target
from gapless.features.spark.pipeline.spec import mapping as _mapping
from gapless.features.spark.pipeline.spec import text as _text
from gapless.features.spark.pipeline.spec import words as _words
from gapless.log.filter import ALL, Filter, filter_of

BATCH_EVENTS = 500_000
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_KEYS = (
    *("from", "start", "columns", "eventTypes", "where", "params", "batchEvents", "archive"),
    *("check", "onBadRow", "sql", "transform", "to", "conf"),
)
_ON_BAD_ROW = ("fail", "dead-letter", "drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """One pipeline. `sql` reads the view `events`; `transform` is module:function(df) -> df.

    event_types, where, params: the wanted events, as options of the source; None: all.
    check: a condition of SQL over the columns of an event, which is bad unless it holds; None: none
    is bad. on_bad_row: the treatment of a bad event. is_archive: the rows of each batch must be its
    events, each once. conf: settings of Spark, with those of the whole file.
    """

    name: str
    topics: tuple[str, ...]
    start: Literal["earliest", "latest"]
    columns: tuple[str, ...]
    event_types: tuple[str, ...] = ()
    where: str | None = None
    params: str = "{}"
    batch_events: int
    is_archive: bool = False
    check: str | None = None
    on_bad_row: Literal["fail", "dead-letter", "drop"] = "fail"
    sql: str | None
    transform: str | None
    target: TargetSpec
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def looks_for_bad(self) -> bool:
        """Whether the events of a batch are looked at one by one."""
        return self.check is not None or self.on_bad_row != "fail"


def load_pipelines(path: Path) -> dict[str, Pipeline]:
    """Read and check the file. Raises ConfigError in one line, with the place."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; --file names another, docs/use/spark.md shows its content"
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    found = document.get("pipelines") if isinstance(document, dict) else None
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"{path}: there is no section pipelines with a pipeline in it")
    shared = _conf(str(path), document)
    pipelines = {}
    for name, given in found.items():
        pipeline = _pipeline(f"{path}: {name}", str(name), given)
        pipelines[pipeline.name] = replace(
            pipeline,
            target=_absolute(pipeline.target, path.parent),
            conf={**shared, **pipeline.conf},
        )
    return pipelines


def _absolute(target: TargetSpec, folder: Path) -> TargetSpec:
    """Resolve a folder without scheme or root against the folder of its file."""
    if not target.is_folder or ":/" in target.where:
        return target
    return replace(target, where=str((folder / target.where).absolute()))


def _pipeline(place: str, name: str, given: Any) -> Pipeline:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{place}: a name has letters, digits, _, - and dots, and begins with no dot"
        )
    options = _mapping(place, given, _KEYS)
    if ("sql" in options) and ("transform" in options):
        raise ConfigError(f"{place}: sql or transform, not both")
    start = options.get("start", "earliest")
    if start not in ("earliest", "latest"):
        raise ConfigError(f"{place}.start: earliest or latest, not {start!r}")
    events = options.get("batchEvents", BATCH_EVENTS)
    if isinstance(events, bool) or not isinstance(events, int) or events < 1:
        raise ConfigError(f"{place}.batchEvents: a whole number, 1 or more, not {events!r}")
    try:
        columns = parse_columns(",".join(_words(place, options, "columns") or COLUMNS))
    except UsageError as error:
        raise ConfigError(f"{place}: {error}") from None
    topics = _words(place, options, "from")
    if not topics:
        raise ConfigError(f"{place}.from: name a topic, or a list of them")
    target = read_target(f"{place}.to", options.get("to"))
    if target.is_upsert and len(topics) > 1:
        raise ConfigError(f"{place}.from: one topic for an upsert: offsets of two have no order")
    event_types = _words(place, options, "eventTypes")
    condition = _condition(place, options)
    takes_all = not event_types and condition.where is None
    archive = _archive(place, options, target, takes_all=takes_all)
    check = _text(place, options, "check")
    return Pipeline(
        name=name,
        topics=topics,
        start=start,
        columns=columns,
        event_types=event_types,
        where=condition.where,
        params=condition.params,
        batch_events=events,
        is_archive=archive,
        check=check,
        on_bad_row=_on_bad_row(place, options, check, target, archive=archive),
        sql=_text(place, options, "sql"),
        transform=_text(place, options, "transform"),
        target=target,
        conf=_conf(place, options),
    )


def _archive(
    place: str, options: Mapping[str, Any], target: TargetSpec, *, takes_all: bool
) -> bool:
    archive = options.get("archive", False)
    if not isinstance(archive, bool) or (archive and not target.is_folder):
        raise ConfigError(f"{place}.archive: true or false, and true only to parquet or delta")
    if archive and target.is_upsert:
        raise ConfigError(f"{place}.archive: it holds every event, and an upsert the newest only")
    if archive and not takes_all:
        raise ConfigError(f"{place}.archive: it holds every event: leave eventTypes and where out")
    return archive


def _on_bad_row(
    place: str, options: Mapping[str, Any], check: str | None, target: TargetSpec, *, archive: bool
) -> Literal["fail", "dead-letter", "drop"]:
    said = options.get("onBadRow", "fail")
    if said not in _ON_BAD_ROW:
        raise ConfigError(f"{place}.onBadRow: {', '.join(_ON_BAD_ROW)}, not {said!r}")
    if check is not None and not check.strip():
        raise ConfigError(f"{place}.check is empty: a condition of SQL is wanted")
    if archive and said != "fail":
        raise ConfigError(f"{place}.archive: it holds every event: leave onBadRow out")
    if said != "fail" and target.commits_apart:
        raise ConfigError(
            f"{place}.onBadRow: only fail, to {target.kind} like this: its rows and dead letters "
            "are two commits, and a kill between them would lose one; filter in sql or transform"
        )
    found: Literal["fail", "dead-letter", "drop"] = said
    return found


def _condition(place: str, options: Mapping[str, Any]) -> Filter:
    try:
        return filter_of(None, options.get("where"), options.get("params")) or ALL
    except UsageError as error:
        raise ConfigError(f"{place}: {error}") from None


def _conf(place: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return Spark's settings as texts: YAML reads true and 8 as other types."""
    given = options.get("conf", {})
    if not isinstance(given, dict):
        raise ConfigError(f"{place}.conf: settings of Spark are wanted, as spark.name: value")
    found: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(value, str | int | float):
            raise ConfigError(f"{place}.conf.{name}: text or a number is wanted, not {value!r}")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            found.update([parse_conf(f"{name}={text}")])
        except UsageError as error:
            raise ConfigError(f"{place}.conf: {error}") from None
    return found
