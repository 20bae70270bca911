"""Config and values files: light-portal's file, mistakes with their line, and hostile content."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gapless.errors import ConfigError
from gapless.settings import Settings, load

if TYPE_CHECKING:
    from pathlib import Path

LIGHT_PORTAL = """\
# Db event consumer configuration
groupId: ${db-event-consumer.groupId:user-query-group}
batchSize: ${db-event-consumer.batchSize:100}
totalPartitions: ${db-event-consumer.totalPartitions:8}
partitionId: ${db-event-consumer.partitionId:0}
waitPeriodMs: ${db-event-consumer.waitPeriodMs:1000}
"""


def written(folder: Path, text: str | bytes, name: str = "gapless.yml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def complaint(path: Path, **arguments) -> str:
    """Load a file that must be refused; give the message, which must be one short line."""
    with pytest.raises(ConfigError) as refused:
        load(path, environ={}, **arguments)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path)).strip()


# ---- light-portal ----


def test_light_portal_file_unchanged(tmp_path: Path) -> None:
    path = written(tmp_path, LIGHT_PORTAL, "db-event-consumer.yml")
    loaded = load(path, environ={})
    assert loaded.settings == Settings(group_id="user-query-group")
    assert loaded.warnings == (
        (
            f"partitionId is ignored ({path} line 5):"
            " supervisors share the partitions among themselves"
        ),
    )


def test_light_portal_file_with_its_environment_and_values(tmp_path: Path) -> None:
    path = written(tmp_path, LIGHT_PORTAL, "db-event-consumer.yml")
    values = written(
        tmp_path,
        "# values.yml\nserver.httpPort: 8080\nclient:\n  nested: [{a: 1}]\n"
        "db-event-consumer.batchSize: 200\ndb-event-consumer.waitPeriodMs: 50\n"
        "db-event-consumer.partitionId: 3\n",
        "values.yml",
    )
    environ = {"DB_EVENT_CONSUMER_BATCHSIZE": "300", "DB_EVENT_CONSUMER_PARTITIONID": "4"}
    loaded = load(path, environ=environ)
    assert loaded.settings.batch_size == 300
    assert loaded.settings.wait_period_ms == 50
    assert loaded.sources["waitPeriodMs"] == f"values file {values} line 6"
    assert len(loaded.warnings) == 1
    for place in (f"{path} line 5", "environment DB_EVENT_CONSUMER_PARTITIONID", f"{values} line"):
        assert place in loaded.warnings[0]


# ---- values files ----


def test_values_file_may_be_named_and_then_the_one_beside_is_not_read(tmp_path: Path) -> None:
    path = written(tmp_path, "topic: a")
    written(tmp_path, "gapless.batchSize: 5", "values.yml")
    other = written(tmp_path, "gapless.topic: b", "other.yml")
    settings = load(path, values=other, environ={}).settings
    assert (settings.topic, settings.batch_size) == ("b", 100)
    assert load(None, values=other, environ={}).settings.topic == "b"


def test_values_are_data(tmp_path: Path) -> None:
    path = written(tmp_path, "app: x\nhandlers: y\ndsn: ${gapless.dsn:x}")
    written(
        tmp_path,
        "gapless.app: '${no.such.name}'\ngapless.handlers: [a, b]\ngapless.dsn:\n",
        "values.yml",
    )
    settings = load(path, environ={}).settings
    assert settings.app == "${no.such.name}"
    assert settings.handlers == ("a", "b")
    assert settings.dsn is None  # null in the values file is a value, not a missing one


def test_misspelt_values_are_warned_of(tmp_path: Path) -> None:
    values = written(
        tmp_path,
        "gapless.batchsize: 5\ngapless:\n  topic: b\nserver.batchsize: 5\n"
        "db-event-consumer.zzz: 1\n",
        "values.yml",
    )
    loaded = load(None, values=values, environ={})
    assert loaded.settings == Settings()
    assert loaded.warnings == (
        (
            f"values file {values} line 1: 'gapless.batchsize' is no setting;"
            " did you mean 'gapless.batchSize'?"
        ),
        (
            f"values file {values} line 2: 'gapless' is no setting;"
            " write one flat key each, as 'gapless.dsn: …'"
        ),
        f"values file {values} line 5: 'db-event-consumer.zzz' is no setting",
    )


def test_a_values_link_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    (tmp_path / "values.yml").symlink_to(tmp_path / "gone.yml")
    with pytest.raises(ConfigError, match=r"values.yml: cannot be read: No such file"):
        load(path, environ={})


# ---- mistakes ----


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<<: {topic: a}", "line 1: unknown key '<<'"),
        ("topic: ~", "line 1: topic is empty: must be 1 to 200"),
        ("topic: a\nbatchSize: abc", "line 2: batchSize is 'abc': must be a whole number from 1"),
        ("topic: a\n\tb: c", "line 2 column 1: not YAML: while scanning for the next token, foun"),
        ("topic: a\ndsn: \x01", "line 2 column 6: not YAML: character U+0001 is not allowed"),
        (b"topic: a\napp: \xff", "line 2: is not UTF-8"),
        ("topic: a".encode("utf-16"), "line 1: is not UTF-8"),
        ("[" * 5_000, ": is nested too deeply"),
        (b"#" * (1 << 20) + b"\n", ": is larger than 1 MiB"),
    ],
)
def test_mistakes_with_their_place(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert complaint(written(tmp_path, text)).startswith(message)


@pytest.mark.parametrize("text", ["", "\n\n", "# only words\n", "---\n", "~", "{}", "\ufeff"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    assert load(written(tmp_path, text), environ={}).settings == Settings()


def test_text_is_taken_as_it_is_written(tmp_path: Path) -> None:
    text = "\ufefftopic: 010\ngroupId: yes\ninstanceName: 1:30\napp: 'null'\nbatchSize: \"7\"\n"
    settings = load(written(tmp_path, text), environ={}).settings
    assert (settings.topic, settings.group_id) == ("010", "yes")
    assert (settings.instance_name, settings.app, settings.batch_size) == ("1:30", "null", 7)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    assert complaint(tmp_path / "gone.yml") == ": cannot be read: No such file or directory"
    assert complaint(tmp_path) == ": cannot be read: Is a directory"
    assert complaint(file / "below.yml") == ": cannot be read: Not a directory"
    assert complaint(tmp_path / "a\0b").startswith(": cannot be read: ")
    gone = tmp_path / "gone.yml"
    with pytest.raises(ConfigError, match=re.escape(f"{gone}: cannot be read")):
        load(file, values=gone, environ={})


def test_a_file_without_permission(tmp_path: Path) -> None:
    file = written(tmp_path, "")
    file.chmod(0)
    user = os.geteuid()
    if user == 0:  # root may read everything
        os.seteuid(65_534)
    try:
        assert complaint(file) == ": cannot be read: Permission denied"
    finally:
        os.seteuid(user)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=40)
    | st.text(st.sampled_from("topicbatchSize:${}[]#&*!?-|>'\"\\%@ \n\t0\u2028\x85"), max_size=40)
    | st.builds("topic: {}".format, st.text(max_size=20)),
)
@example("topic: &a [*a]")
def test_any_file_loads_or_is_refused_in_one_line(tmp_path: Path, content: str | bytes) -> None:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    path = written(tmp_path, raw, "fuzz.yml")
    message = ""
    try:
        load(path, environ={})
    except ConfigError as refused:
        message = str(refused)
    assert len(message.splitlines()) <= 1
