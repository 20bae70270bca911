"""What is said to Spark: how it is written, and where it is looked for before there is a JVM."""

from pathlib import Path

import pytest

from gapless.errors import ConfigError, UsageError
from gapless.features.spark import home
from gapless.features.spark.conf import has_log_settings, is_mentioned, parse_conf
from gapless.features.spark.pipeline.document import load_pipelines

NAME = "spark.driver.extraJavaOptions"


def test_a_setting_is_a_name_and_a_value() -> None:
    assert parse_conf("spark.a.b=c=d e") == ("spark.a.b", "c=d e")
    assert parse_conf(" spark.a = ") == ("spark.a", "")


@pytest.mark.parametrize("text", ["spark.a", "=1", "sparka=1", "spark.=1", "spark.a b=1", ""])
def test_what_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="setting of Spark") as refused:
        parse_conf(text)
    assert "\n" not in str(refused.value)


def test_of_all_pipelines_and_of_one(tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yml"
    path.write_text(
        "conf: {spark.a: 1, spark.b: true}\n"
        "pipelines:\n  p:\n    from: a\n    to: {topic: b}\n    conf: {spark.b: off, spark.c: x}\n"
        "  q:\n    from: a\n    to: {topic: b}\n"
    )
    found = load_pipelines(path)
    assert found["p"].conf == {"spark.a": "1", "spark.b": "false", "spark.c": "x"}
    assert found["q"].conf == {"spark.a": "1", "spark.b": "true"}


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ("[spark.a]", "settings of Spark are wanted"),
        ("{shuffle: 1}", "p.conf: 'shuffle' is no setting of Spark"),
        ("{spark.a: [1]}", r"conf.spark.a: text or a number is wanted, not \[1\]"),
    ],
)
def test_a_wrong_conf_of_the_file_is_said_with_its_place(
    tmp_path: Path, conf: str, says: str
) -> None:
    path = tmp_path / "pipelines.yml"
    path.write_text(f"pipelines:\n  p:\n    from: a\n    to: {{topic: b}}\n    conf: {conf}\n")
    with pytest.raises(ConfigError, match=says):
        load_pipelines(path)


@pytest.mark.parametrize("line", [f"{NAME} -Xa", f"  {NAME}=-Xa", f"{NAME}:-Xa", f"{NAME}\t-Xa"])
def test_what_spark_defaults_say_is_seen(tmp_path: Path, line: str) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text(f"# theirs\n{line}\n")
    env = {"SPARK_CONF_DIR": str(tmp_path)}
    assert is_mentioned(NAME, env)
    assert not is_mentioned("spark.driver.extra", env)
    file.write_text(f"# {NAME} -Xa\n")
    assert not is_mentioned(NAME, env)
    assert is_mentioned(NAME, {"PYSPARK_SUBMIT_ARGS": f"--conf {NAME}=-Xa pyspark-shell"})
    assert not is_mentioned(NAME, {})


def test_log_settings_are_seen(tmp_path: Path) -> None:
    env = {"SPARK_CONF_DIR": str(tmp_path)}
    (tmp_path / "log4j2.properties.template").touch()
    assert not has_log_settings(env)
    (tmp_path / "log4j2.properties").touch()
    assert has_log_settings(env)
    assert not has_log_settings({})


def test_the_settings_beside_the_users_home_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SPARK_HOME becomes our own; what stands in its conf is the user's."""
    pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = tmp_path / "java"
    (java / "bin").mkdir(parents=True)
    (java / "bin" / "java").touch()
    conf = tmp_path / "spark" / "conf"
    conf.mkdir(parents=True)
    (conf / "spark-defaults.conf.template").touch()
    env = {"SPARK_HOME": str(conf.parent), "JAVA_HOME": str(java)}
    given = dict(env)
    home.prepare(env)
    assert "SPARK_CONF_DIR" not in env, "there are templates only"
    (conf / "spark-defaults.conf").touch()
    home.prepare(given)
    assert given["SPARK_CONF_DIR"] == str(conf)
    home.prepare(given)
    assert given["SPARK_CONF_DIR"] == str(conf)
    named = {**env, "SPARK_HOME": str(conf.parent), "SPARK_CONF_DIR": "/elsewhere"}
    home.prepare(named)
    assert named["SPARK_CONF_DIR"] == "/elsewhere"
