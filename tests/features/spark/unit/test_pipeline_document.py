"""The YAML of pipelines: what is wrong is said in one line, with its place."""

from pathlib import Path

import pytest

from gapless.errors import ConfigError
from gapless.features.spark.pipeline.document import TargetSpec, load_pipelines

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


@pytest.mark.parametrize(
    ("body", "says"),
    [
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


def test_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--file names another"):
        load_pipelines(tmp_path / "nowhere.yml")
