"""Sentences for what goes wrong between a driver and executors with another Python.

Spark plans a Python data source on the driver, with the interpreter that it was registered with,
and runs its tasks with spark.sql.execution.pyspark.python; RDDs run with PYSPARK_PYTHON.
"""

from __future__ import annotations

import re

SETTING = "spark.pyspark.python"
_PAGE = "docs/run/spark-cluster.md"
_EXECUTORS, _DRIVER = "Spark's executors", "the driver's machine, where Spark plans,"
_PLANNING = "PythonPlannerRunner"  # in Java's stack; a session of ours plans with a sound Python
_OURS = "gapless|pyspark_gapless|psycopg|psycopg_binary|msgspec|pyarrow|numpy|adbc_driver_\\w+"

_REMEDIES = {
    r'Cannot run program "([^"]+)"': """
        {where} cannot start {0}: name the executors' Python in spark.pyspark.python, the driver's
        in spark.pyspark.driver.python, and begin with spark_session() ({page})""",
    r"VERSION_MISMATCH\] Python in worker has different version: (\S+) than .* ([\d.]+),": """
        Spark's executors have Python {0}, and the driver {1}: they have to be the same; name the
        executors' in spark.pyspark.python ({page})""",
    rf"No module named '?((?:{_OURS})\b)": """
        the Python of {where} has no package {0}: pip install 'gapless[spark-provided]' there, or
        name another in spark.pyspark.python ({page})""",
    r"No module named '?pyspark\b": """
        the Python of {where} finds no PySpark: set SPARK_HOME there to a whole Spark, or pip
        install pyspark ({page})""",
    r"(?:Could not parse Master URL|Invalid master URL): *'?([^'\s]+)": """
        {0} is no master: write local[4], spark://host:7077, yarn or k8s://https://host""",
    r"All masters are unresponsive|Cannot call methods on a stopped SparkContext": """
        Spark has ended: its master does not answer at this address, or its executors do not
        start""",
}
_COMPILED = {re.compile(each): " ".join(text.split()) for each, text in _REMEDIES.items()}


def remedy(text: str) -> str | None:
    """Return a sentence with the remedy for a failure in Spark's text; None: another failure."""
    where = _DRIVER if _PLANNING in text else _EXECUTORS
    for pattern, template in _COMPILED.items():
        if found := pattern.search(text):
            return template.format(*found.groups(), where=where, page=_PAGE)
    return None
