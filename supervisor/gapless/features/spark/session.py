"""Start a Spark session with gapless's settings, or attach to the running one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
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
from gapless.features.spark.connect import (
    HIDDEN,
    connect_address,
    is_connect,
    running_connect,
    setting_of,
    start_connect,
    without_parameters,
)
from gapless.features.spark.home import class_archive, java_command, prepare
from gapless.features.spark.remedies import SETTING, remedy

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
    Spark does not start. Where Spark Connect is asked for, or runs, it is a session of that
    (connect.py).
    """
    remote = running_connect() or _start_remote(master, name, conf or {})
    if remote is not None:
        _apply(remote, conf or {})
        return _ready(remote, by_hand=by_hand)
    home = prepare()
    from pyspark import SparkContext  # after prepare() has set its home
    from pyspark.sql import SparkSession

    running: Any = SparkContext._active_spark_context  # noqa: SLF001 - there is no other way to ask
    if running is not None and running._jsc is not None:  # noqa: SLF001 - as above
        session = SparkSession.builder.getOrCreate()
        _apply(session, conf or {})
    else:
        session = _start(home, master, name, conf or {})
    _use_interpreters(session, conf or {})
    return _ready(session, by_hand=by_hand)


def _ready(session: SparkSession, *, by_hand: bool) -> SparkSession:
    _redact(session)
    if by_hand:
        register_source(session)
    return session


def _start_remote(master: str | None, name: str, conf: Mapping[str, str]) -> SparkSession | None:
    """Start a session of Spark Connect, if that is asked for."""
    remote = connect_address(master, conf)
    if remote is None:
        return None
    settings: dict[str, str] = {}
    if not remote.startswith("sc://"):
        settings = {key: value for key, value in DEFAULTS.items() if not is_mentioned(key)}
        settings |= {"spark.app.name": name, **_java_options(prepare(), conf), **conf}
        remote = _retrying(remote)
    try:
        return start_connect(remote, settings)
    except GaplessError:
        raise
    except Exception as error:
        said = without_parameters(sentence(error), remote)
        raise GaplessError(f"Spark Connect does not start: {said}") from error


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


# They say where Spark Connect is, and are nothing to a session.
_OF_CONNECT = ("spark.remote", "spark.api.mode")
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
    started: Any = session.conf if is_connect(session) else session.sparkContext.getConf()
    for key, value in conf.items():
        if key in _OF_CONNECT or started.get(key, None) == value:
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
        said = setting_of(session, key)
        if said != HIDDEN and (said is None or ours not in said):
            session.conf.set(key, wider(said, ours))


def _use_interpreters(session: SparkSession, conf: Mapping[str, str]) -> None:
    """Let tasks run with the Python of the executors, which the driver's machine may lack.

    Spark plans a data source with the interpreter that it was registered with (the driver's own),
    and runs its tasks with _FOR_SQL, or with the same.
    """
    context: Any = session.sparkContext
    said = conf.get(SETTING) or context.getConf().get(SETTING)
    context.pythonExec = said or context.pythonExec  # for RDDs; Spark reads the variable only
    if context.pythonExec != sys.executable and session.conf.get(_FOR_SQL, None) is None:
        session.conf.set(_FOR_SQL, context.pythonExec)


_FOR_SQL = "spark.sql.execution.pyspark.python"


def register_source(session: SparkSession) -> None:
    """Register the format by hand: another vendor's broken module may break Spark's own search."""
    from pyspark_gapless import GaplessSource

    with nullcontext() if is_connect(session) else _drivers_python(session):
        try:
            session.dataSource.register(GaplessSource)
        except Exception as error:
            # PySpark 4.0 does not register again a format that it has found by itself: it is ours.
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise


@contextmanager
def _drivers_python(session: SparkSession) -> Iterator[None]:
    """Inside the block, what is registered is planned with the Python of the driver."""
    context: Any = session.sparkContext
    for_tasks = context.pythonExec
    context.pythonExec = context.getConf().get("spark.pyspark.driver.python") or sys.executable
    try:
        yield
    finally:
        context.pythonExec = for_tasks


def sentence(error: BaseException) -> str:
    """Find the one sentence that explains an error in the text of Spark and Py4J around it."""
    text = str(error)
    advice = None if _OURS.search(text) else remedy(text)
    if advice is not None:
        return advice
    for pattern in _TELLING:
        found = pattern.findall(text)
        if found:
            return " ".join(str(found[-1]).split())[:500]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


# The most telling first: our own errors, the end of Python's traceback, Spark's conclusion.
_OURS = re.compile(r"^.*?gapless\.errors\.\w+Error: (.+)$", re.MULTILINE)
_TELLING = (
    _OURS,
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
