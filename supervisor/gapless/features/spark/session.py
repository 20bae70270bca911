"""Start a Spark session with gapless's settings, or attach to the running one."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError, UsageError
from gapless.features.spark.conf import (
    DEFAULTS,
    FALLBACK,
    SECRETS,
    has_log_settings,
    is_mentioned,
    wider,
)
from gapless.features.spark.home import class_archive, java_command, prepare

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

# local[N] never tries a task again: local[N,4] does, as a cluster would.
LOCAL_ATTEMPTS = 4
_NO_ARCHIVE = ("GAPLESS_SPARK_NO_ARCHIVE", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def spark_session(
    master: str | None = None,
    *,
    name: str = "gapless",
    conf: Mapping[str, str] | None = None,
    by_hand: bool = True,
) -> SparkSession:
    """Return a session with the format `gapless` registered; the running one, if there is one.

    conf: takes precedence over Spark's own sources, and those over gapless's defaults (conf.py).
    by_hand: register the format, instead of leaving it to Spark's own search. Raises UsageError
    without PySpark or Java, or for a conf that a running session cannot take, GaplessError when
    Spark does not start.
    """
    home = prepare()
    from pyspark import SparkContext  # after prepare() has set its home
    from pyspark.sql import SparkSession

    running: Any = SparkContext._active_spark_context  # noqa: SLF001 - there is no other way to ask
    if running is not None and running._jsc is not None:  # noqa: SLF001 - as above
        session = SparkSession.builder.getOrCreate()
        _apply(session, conf or {})
    else:
        session = _start(home, master, name, conf or {})
    _redact(session)
    if by_hand:
        register_source(session)
    return session


def _start(home: Any, master: str | None, name: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a session; its JVM first, which knows the user's settings from elsewhere."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    for_jvm = SparkConf(loadDefaults=False)
    for_jvm.setAll([*_java_options(home, conf).items(), *conf.items()])
    try:
        SparkContext._ensure_initialized(conf=for_jvm)  # noqa: SLF001 - as the builder does
        found = SparkConf()
        settings = {key: value for key, value in DEFAULTS.items() if not _is_said(key, found)}
        settings.update(conf)
        for key, ours in SECRETS.items():
            fallback = found.get(FALLBACK.get(key, ""), None)
            settings[key] = wider(found.get(key, fallback), ours)
        if found.get("spark.app.name", _UNNAMED) == _UNNAMED:
            settings["spark.app.name"] = name
        master = master or conf.get("spark.master")
        if master is None and found.get("spark.master", _EVERYWHERE) == _EVERYWHERE:
            master = _EVERYWHERE
        if master is not None:
            settings["spark.master"] = _retrying(master)
        builder: Any = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        session: SparkSession = builder.getOrCreate()
    except Exception as error:
        where = f" on {master}" if master else ""
        raise GaplessError(f"Spark does not start{where}: {sentence(error)}") from error
    return session


# The name that Spark's launcher sets by default.
_UNNAMED = "pyspark-shell"
_EVERYWHERE = "local[*]"


def _is_said(key: str, found: SparkConf) -> bool:
    """Tell whether the user has set something, as far as the new JVM knows."""
    if key == "spark.ui.showConsoleProgress":  # the launcher sets it, too
        return is_mentioned(key)
    if key == "spark.log.level" and has_log_settings():
        return True
    return bool(found.contains(key))


def _apply(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Set options of a running session. Raises UsageError for those that only a new one takes."""
    started: Any = session.sparkContext.getConf()
    for key, value in conf.items():
        if started.get(key) == value:
            continue
        try:
            session.conf.set(key, value)
        except Exception as error:
            raise UsageError(
                f"{key}: the Spark session that runs cannot take it any more; say it where that "
                f"session is made ({sentence(error)})"
            ) from error


def _redact(session: SparkSession) -> None:
    """Extend the patterns by which Spark hides passwords; keep the user's."""
    for key, ours in SECRETS.items():
        said = session.conf.get(key, None)
        if said is None or ours not in said:
            session.conf.set(key, wider(said, ours))


def end_session(session: SparkSession) -> None:
    """Stop a session and its JVM, and wait for the JVM's end."""
    from pyspark import SparkContext

    session.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark ends it at exit, not before
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def end_session_within(session: SparkSession, seconds: float) -> None:
    """Stop a session, even if its JVM does not end in time, or is gone already."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above

    def end() -> None:
        with suppress(Exception):
            end_session(session)

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    ending.join(seconds)
    if gateway is not None and gateway.proc.poll() is None:
        gateway.proc.kill()
        gateway.proc.wait()


def register_source(session: SparkSession) -> None:
    """Register the format by hand: another vendor's broken module may break Spark's own search."""
    from pyspark_gapless import GaplessSource

    try:
        session.dataSource.register(GaplessSource)
    except Exception as error:
        # PySpark 4.0 does not register again a format that it has found by itself: it is ours.
        if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
            raise


def sentence(error: BaseException) -> str:
    """Find the one sentence that explains an error in the text of Spark and Py4J around it."""
    text = str(error)
    for pattern in _TELLING:
        found = pattern.findall(text)
        if found:
            return " ".join(str(found[-1]).split())[:500]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


# The most telling first: our own errors, the end of Python's traceback, Spark's conclusion.
_TELLING = (
    re.compile(r"^.*?gapless\.errors\.\w+Error: (.+)$", re.MULTILINE),
    re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+([\w.]+: .+)$", re.MULTILINE),
    re.compile(r"(Job aborted due to stage failure: .+)$", re.MULTILINE),
    re.compile(r"^: ([\w.$]+: .+)$", re.MULTILINE),  # Py4J's, below "An error occurred while"
)
_WRONG_INPUT = re.compile(r"gapless\.errors\.(Usage|Config|Publish)Error")


def explained(error: BaseException) -> GaplessError:
    """Return an error for people: its sentence, as a UsageError if the input was wrong."""
    kind = UsageError if _WRONG_INPUT.search(str(error)) else GaplessError
    return kind(sentence(error))


def _retrying(master: str) -> str:
    if master.startswith("local[") and "," not in master:
        return f"{master.removesuffix(']')},{LOCAL_ATTEMPTS}]"
    return f"local[1,{LOCAL_ATTEMPTS}]" if master == "local" else master


def _java_options(home: Any, conf: Mapping[str, str]) -> dict[str, str]:
    """Use the class archive, or have it made; neither beside the user's own options.

    A JVM makes no archive with a folder of files among its jars, such as a folder of settings.
    """
    name = "spark.driver.extraJavaOptions"
    said = "--driver-java-options" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    said = said or name in conf or is_mentioned(name)
    if said or any(os.environ.get(each) for each in _NO_ARCHIVE):
        return {}
    archive, is_new = class_archive(home, java_command(os.environ))
    flag = "ArchiveClassesAtExit" if is_new else "SharedArchiveFile"
    return {name: f"-XX:{flag}={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"}


def sibling(session: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """Return a session beside another, on the same Spark: its views and settings are its own."""
    made = session.newSession()
    register_source(made)
    _apply(made, conf)
    _redact(made)
    return made


def kill_jvm() -> None:
    """Kill the JVM of this process: all calls of it fail from then on."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()


def forget_session() -> None:
    """Kill the JVM of this process, so that spark_session() starts another one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    kill_jvm()
    holders: Any = SparkContext, SparkSession
    for holder, names in zip(holders, _RUNNING, strict=True):
        for name in names:
            setattr(holder, name, None)


# PySpark clears them only if the JVM answers.
_RUNNING = (("_gateway", "_jvm", "_active_spark_context"), ("_instantiatedSession",))


def has_ended(session: SparkSession) -> bool:
    """Tell whether a session's Spark has stopped, or its JVM is gone."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is None or gateway.proc.poll() is not None:
        return True
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())  # noqa: SLF001 - as above
    except Exception:  # noqa: BLE001 - Py4J has many, and each means the same
        return True
