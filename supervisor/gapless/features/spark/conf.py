"""Settings of Spark, by their source, and gapless's own defaults.

The first of these counts: the command line, pipelines.yml, Spark's own sources
(spark-defaults.conf, PYSPARK_SUBMIT_ARGS, a running session), gapless's defaults.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gapless.errors import UsageError

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "8",
    "spark.log.level": "ERROR",
    # Spark's own, with dsn: the page Environment shows spark.executorEnv.GAPLESS_DSN.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|dsn",
}

# Patterns of values that Spark hides in options and plans: these extend the user's patterns.
SECRETS = {
    "spark.sql.redaction.options.regex": "(?i:url|dsn)",
    "spark.sql.redaction.string.regex": r"(?i:postgres(?:ql)?://[^\s'\"]+|password\s*=\s*\S+)",
}

# The setting that Spark reads where one of these is missing.
FALLBACK = {"spark.sql.redaction.string.regex": "spark.redaction.string.regex"}

_NAME = re.compile(r"spark\.[^\s=]+")


def parse_conf(text: str) -> tuple[str, str]:
    """Parse `spark.name=value`. Raises UsageError in one sentence, which shows no value."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals:
        raise UsageError(f"{name!r}: a setting of Spark is wanted, as spark.name=value")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no setting of Spark: their names begin with spark.")
    return name, value.strip()


def wider(said: str | None, ours: str) -> str:
    """Return a regular expression of Java that matches both patterns, the user's and ours."""
    if not said:
        return ours
    return said if ours in said else f"(?:{said})|{ours}"


def is_mentioned(name: str, environ: Mapping[str, str] | None = None) -> bool:
    """Tell whether a setting is in spark-defaults.conf or PYSPARK_SUBMIT_ARGS.

    For settings that are needed before there is a JVM to ask.
    """
    env = os.environ if environ is None else environ
    submitted = env.get("PYSPARK_SUBMIT_ARGS", "")
    if "--properties-file" in submitted or f"{name}=" in submitted:
        return True
    try:
        text = (Path(env.get("SPARK_CONF_DIR", "")) / "spark-defaults.conf").read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return bool(re.search(rf"^\s*{re.escape(name)}[\s=:]", text, re.MULTILINE))


def has_log_settings(environ: Mapping[str, str] | None = None) -> bool:
    """Tell whether the user configures Spark's logs in a file of log4j."""
    folder = (os.environ if environ is None else environ).get("SPARK_CONF_DIR")
    return folder is not None and any(
        path.suffix != ".template" for path in Path(folder).glob("log4j2.*")
    )
