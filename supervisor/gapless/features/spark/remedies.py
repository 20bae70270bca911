"""Sentences for what goes wrong between a driver and executors with another Python.

Spark plans a Python data source on the driver, with the interpreter that it was registered with,
and runs its tasks with spark.sql.execution.pyspark.python; RDDs run with PYSPARK_PYTHON.
"""

from __future__ import annotations

import re

EXTRA = "gapless[spark-provided]"
SETTING = "spark.pyspark.python"
_PAGE = "docs/run/spark-cluster.md"

_OURS = "gapless|pyspark_gapless|psycopg|psycopg_binary|msgspec|pyarrow|numpy|adbc_driver_\\w+"
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE = re.compile(rf"No module named '?((?:{_OURS})\b)")
_NO_PYSPARK = re.compile(r"No module named '?pyspark\b(?!_)")
_VERSIONS = re.compile(
    r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: (\S+) than that in driver: "
    r"(\S+?),"
)
_IN_TASK = re.compile(r"Lost task|stage failure|executor \S+\)", re.IGNORECASE)
_NO_MASTER = re.compile(
    r"All masters are unresponsive|Could not parse Master URL|Invalid master URL|"
    r"Application has been killed\. Reason: All"
)


def remedy(text: str) -> str | None:
    """Return a sentence with the remedy for a failure that Spark's text tells; None: another one."""
    in_task = bool(_IN_TASK.search(text))
    where = "Spark's executors" if in_task else "the driver, where Spark plans,"
    if found := _NO_PROGRAM.search(text):
        name = (
            f"the executors' Python in {SETTING}"
            if in_task
            else f"the executors' Python in {SETTING}, and the driver's in PYSPARK_DRIVER_PYTHON"
        )
        return f"{where} cannot start {found[1]}: name {name} ({_PAGE})"
    if found := _VERSIONS.search(text):
        return (
            f"Spark's executors have Python {found[1]}, and the driver {found[2]}: they have to be "
            f"the same; name the executors' in {SETTING} ({_PAGE})"
        )
    if found := _NO_MODULE.search(text):
        return (
            f"the Python of {where.removesuffix(',')} has no package {found[1]}: "
            f"pip install '{EXTRA}' there, and name it in {SETTING} ({_PAGE})"
        )
    if _NO_PYSPARK.search(text):
        return (
            f"the Python of {where.removesuffix(',')} finds no PySpark: set SPARK_HOME there to a "
            f"whole Spark, or pip install pyspark ({_PAGE})"
        )
    if _NO_MASTER.search(text):
        return "the master does not answer: is its address right, and reachable from here?"
    return None
