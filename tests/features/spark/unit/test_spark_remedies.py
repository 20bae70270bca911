"""Failures between a driver and executors with another Python: one sentence with the remedy each."""

import pytest

from gapless.features.spark.session import sentence

PY4J = "An error occurred while calling o66.load.\n: "
LOST = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 "
    "times, most recent failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): "
)
PLANS = "\n\tat org.apache.spark.sql.execution.python.PythonPlannerRunner.runInPython(X.scala:95)"
ROWS = {
    "no interpreter on the executors": (
        (
            f'{PY4J}{LOST}java.io.IOException: Cannot run program "/driver/bin/python": error=2, No such '
            "file or directory\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)"
        ),
        (
            "Spark's executors cannot start /driver/bin/python: name the executors' Python in "
            "spark.pyspark.python"
        ),
    ),
    "no interpreter on the driver": (
        (
            f'{PY4J}java.io.IOException: Cannot run program "/opt/there/bin/python": error=2, No such file '
            f"or directory\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143){PLANS}"
        ),
        (
            "the driver's machine, where Spark plans, cannot start /opt/there/bin/python: name the executors' "
            "Python in spark.pyspark.python, the driver's in spark.pyspark.driver.python"
        ),
    ),
    "no package on the driver": (
        (
            f"{PY4J}org.apache.spark.SparkException: \nError from python worker:\n  Traceback (most recent "
            'call last):\n    File "<frozen runpy>", line 189, in _run_module_as_main\n  '
            "ModuleNotFoundError: No module named 'pyarrow'\nPYTHONPATH was:\n  /spark/jars" + PLANS
        ),
        (
            "the Python of the driver's machine, where Spark plans, has no package pyarrow: pip install "
            "'gapless[spark-provided]' there"
        ),
    ),
    "no package on the executors": (
        (
            f"{PY4J}{LOST}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            '  File "/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in main\n'
            "ModuleNotFoundError: No module named 'pyspark_gapless'\n\n\tat org.apache.spark.X"
        ),
        (
            "the Python of Spark's executors has no package pyspark_gapless: pip install "
            "'gapless[spark-provided]' there"
        ),
    ),
    "no PySpark": (
        (
            f"{PY4J}{LOST}org.apache.spark.SparkException: \nError from python worker:\n  "
            "/opt/there/bin/python: No module named pyspark\nPYTHONPATH was:\n  /spark/jars"
        ),
        "the Python of Spark's executors finds no PySpark",
    ),
    "another version": (
        (
            f"{PY4J}{LOST}org.apache.spark.api.python.PythonException: pyspark.errors.exceptions.base."
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 "
            "than that in driver: 3.11, PySpark cannot run with different minor versions."
        ),
        "Spark's executors have Python 3.12, and the driver 3.11",
    ),
    "no master": (
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: org.apache."
            "spark.SparkException: Could not parse Master URL: 'spork://x'\n\tat org.apache.spark.X"
        ),
        "spork://x is no master: write local[4], spark://host:7077",
    ),
    "a master that does not answer": (
        (
            "An error occurred while calling o33.sessionState.\n: java.lang.IllegalStateException: "
            "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext was created at:"
        ),
        "Spark has ended: its master does not answer at this address",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_sentence_says_what_to_do(row: str) -> None:
    text, says = ROWS[row]
    said = sentence(RuntimeError(text))
    assert said.startswith(says)
    assert "\n" not in said


def test_an_error_of_ours_is_told_as_it_is() -> None:
    """An application that lacks a module of its own, below gapless's own sentence."""
    text = (
        f"{LOST}\nModuleNotFoundError: No module named 'numpy'\ngapless.errors.UsageError: not here"
    )
    assert sentence(RuntimeError(text)) == "not here"
