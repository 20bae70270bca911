"""The YAML of pipelines: what is wrong is said in one line, with its place."""

from pathlib import Path
from typing import Any

import pytest

from gapless.errors import ConfigError, UsageError
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.run import load_transform
from gapless.features.spark.pipeline.spec import TargetSpec
from support.pipelines import pipeline

_GOOD = "from: a\n    to: {topic: b}"


def _load(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "pipelines.yml"
    path.write_text(body)
    return path


def test_a_pipeline(tmp_path: Path) -> None:
    path = _load(
        tmp_path,
        "pipelines:\n  p:\n    from: [a, b]\n    to: {table: t, key: k, add: [n]}\n"
        "  q:\n    from: a\n    to: {parquet: out}\n",
    )
    found = load_pipelines(path)
    assert found["p"].topics == ("a", "b")
    assert found["p"].target == TargetSpec(kind="table", where="t", key=("k",), add=("n",))
    assert found["q"].target.where == str(tmp_path / "out")
    assert (found["q"].event_types, found["q"].where) == ((), None)


def test_a_pipeline_that_takes_some_events(tmp_path: Path) -> None:
    body = (
        f"pipelines:\n  p:\n    {_GOOD}\n    eventTypes: [x, y]\n"
        "    where: $.total > $min\n    params: {min: 100}\n"
    )
    found = load_pipelines(_load(tmp_path, body))["p"]
    assert found.event_types == ("x", "y")
    assert (found.where, found.params) == ("$.total > $min", '{"min": 100}')


def test_a_pipeline_with_a_check(tmp_path: Path) -> None:
    body = f"pipelines:\n  p:\n    {_GOOD}\n    check: key > 'a'\n"
    found = load_pipelines(_load(tmp_path, body))["p"]
    assert (found.check, found.on_bad_row) == ("key > 'a'", "fail")
    found = load_pipelines(_load(tmp_path, body + "    onBadRow: dead-letter\n"))["p"]
    assert found.on_bad_row == "dead-letter"


def test_targets_with_merges(tmp_path: Path) -> None:
    path = _load(
        tmp_path,
        "pipelines:\n"
        "  d:\n    from: a\n    to: {delta: d, mode: upsert, key: k, delete: gone, addColumns: true,"
        " partitionBy: [day(timestamp), kind]}\n"
        "  i:\n    from: a\n    to: {iceberg: s.t, catalog: {name: c, uri: 'env:C'}}\n"
        "  j:\n    from: a\n    to: {iceberg: s.t, catalog: c}\n"
        "  t:\n    from: a\n    to: {table: t, key: k, add: n, min: [l], max: h,"
        " avg: {m: [total, n]}, url: 'env:T'}\n",
    )
    found = {name: each.target for name, each in load_pipelines(path).items()}
    assert found["d"] == TargetSpec(
        kind="delta",
        where=str(tmp_path / "d"),
        partition_by=("timestamp_day", "kind"),
        days=("timestamp",),
        key=("k",),
        is_upsert=True,
        delete="gone",
        adds_columns=True,
    )
    assert found["d"].form == "delta upsert"
    assert (found["i"].catalog, found["i"].catalog_properties) == ("c", {"uri": "env:C"})
    assert (found["j"].catalog, found["j"].catalog_properties) == ("c", {})
    assert found["t"] == TargetSpec(
        kind="table",
        where="t",
        key=("k",),
        add=("n", "total"),
        lowest=("l",),
        highest=("h",),
        means={"m": ("total", "n")},
        url="env:T",
    )
    assert str(found["t"]) == "table t at env:T"


def _to(target: str, rest: str = "from: a") -> str:
    return f"pipelines:\n  p:\n    {rest}\n    to: {target}"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_to("{delta: d, mode: merge}"), "append or upsert, not 'merge'"),
        (_to("{delta: d, mode: upsert}"), "upsert needs key"),
        (_to("{iceberg: d, key: k}"), "only appended: add mode: upsert"),
        (_to("{delta: d, mode: append, key: k}"), "only appended: add mode: upsert"),
        (_to("{delta: d, delete: gone}"), "only appended: add mode: upsert"),
        (_to("{parquet: d, mode: upsert}"), "no key 'mode'"),
        (_to("{delta: d, addColumns: maybe}"), "true or false"),
        (_to("{iceberg: d, catalog: [c]}"), "a name is wanted, or properties"),
        (_to("{table: t, min: n}"), "min needs key"),
        (_to("{table: t, avg: {m: [a, b]}}"), "avg needs key"),
        (_to("{table: t, key: k, avg: m}"), "column: .sum, count. is wanted"),
        (_to("{table: t, key: k, avg: {m: [a]}}"), "the names of two columns"),
        (_to("{table: t, key: k, add: n, max: n}"), "'n' is named twice"),
        (_to("{table: t, key: k, min: s, avg: {m: [s, c]}}"), "'s' is named twice"),
        (_to("{delta: d, mode: upsert, key: k}", "from: [a, b]"), "one topic for an upsert"),
        (
            _to("{delta: d, mode: upsert, key: k}", "from: a\n    archive: true"),
            "an upsert the newest only",
        ),
        *[
            (_to(target, "from: a\n    onBadRow: dead-letter"), "onBadRow: only fail")
            for target in (
                "{delta: d, mode: upsert, key: k}",
                "{iceberg: d}",
                "{table: t, url: 'env:T'}",
            )
        ],
        (_to("{table: t, url: 'postgresql://me:pw@h/d'}"), "url names where the DSN is"),
        ("pipelines: [", "is not YAML"),
        ("other: 1", "no section pipelines"),
        ("pipelines:\n  p: 1", "keys are wanted"),
        ("pipelines:\n  p:\n    form: a\n    to: {topic: b}", "did you mean from"),
        ("pipelines:\n  p:\n    from: a", "one of parquet"),
        ("pipelines:\n  p:\n    from: a\n    to: {topic: b, table: c}", "one of parquet"),
        ("pipelines:\n  p:\n    to: {topic: b}", "name a topic"),
        (f"pipelines:\n  'p q':\n    {_GOOD}", "a name has"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    start: noon", "earliest or latest"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    batchEvents: 0", "1 or more"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    columns: [vlaue]", "did you mean value"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    sql: s\n    transform: m:f", "not both"),
        ("pipelines:\n  p:\n    from: a\n    to: {table: t, add: [n]}", "add needs key"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    where: 7", "a jsonpath"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    params: {{a: 1}}", "there is none"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    where: $.a\n    params: [1]", "an object"),
        (
            "pipelines:\n  p:\n    from: a\n    to: {parquet: x}\n    archive: true\n    where: $.a > 1",
            "holds every event",
        ),
        (
            f"pipelines:\n  p:\n    {_GOOD}\n    check: true\n    onBadRow: drop",
            "check.*text is wanted",
        ),
        (
            "pipelines:\n  p:\n    from: a\n    to: {delta: x}\n    archive: true\n    check: a\n    onBadRow: drop",
            "leave onBadRow out",
        ),
        (f"pipelines:\n  p:\n    {_GOOD}\n    check: ' '", "check is empty"),
        (f"pipelines:\n  p:\n    {_GOOD}\n    check: a\n    onBadRow: skip", "dead-letter, drop"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        load_pipelines(_load(tmp_path, body))
    assert "\n" not in str(refused.value)


def test_a_transform_that_exits_is_an_error_of_its_pipeline() -> None:
    """In a thread of its own it would end that thread, and a run with --once would end with 0."""
    frame: Any = "no DataFrame: it is not looked at"
    with pytest.raises(UsageError, match=r"pipeline_transforms:exits called sys.exit\('no'\)"):
        load_transform(pipeline(transform="pipeline_transforms:exits"))(frame)


def test_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--file names another"):
        load_pipelines(tmp_path / "nowhere.yml")
