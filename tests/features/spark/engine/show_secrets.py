"""A program: says a password in every way there is, then looks for it wherever Spark shows things.

Prints JSON: `found`, where each password was seen in the pages and the REST answers of the UI and in
the event log; `errors`, what was refused; `pages`, how many were looked at.
"""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.features.spark.home import prepare
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.run import run_pipeline
from gapless.features.spark.session import spark_session

PASSWORD = re.compile(r"PW[a-z]+WP")
SKIPPED = re.compile(r"/static/|kill|threadDump|heapHistogram|[sS]ort")
PAGES_MAX = 300
PIPELINE = (
    "pipelines:\n  again:\n    from: outbox\n    columns: [key, value]\n    to: {topic: copy}\n"
)


class Roads:
    """The ways in which a password is said; each has its own."""

    def __init__(self, spark: Any, dsn: str, folder: Path) -> None:
        self._spark = spark
        self._said = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
        self._folder = folder
        self.errors: dict[str, str] = {}

    def try_(self, road: Callable[[], None]) -> None:
        try:
            road()
        except Exception as error:  # noqa: BLE001 - what was refused is told
            self.errors[road.__name__.strip("_")] = str(error)

    def uri(self, password: str) -> str:
        host = quote(self._said["host"], safe="")
        return (
            f"postgresql://{self._said['user']}:{password}@/{self._said['dbname']}"
            f"?host={host}&port={self._said['port']}"
        )

    def conninfo(self, password: str) -> str:
        return make_conninfo("", **{**self._said, "password": password})

    def sql_view(self) -> None:
        options = f"url '{self.uri('PWviewWP')}', topic 'outbox'"
        self._spark.sql(f"create temporary view ev using gapless options ({options})")
        assert self._spark.sql("select count(*) from ev").collect()[0][0] == 10
        self._spark.sql("explain extended select * from ev").collect()

    def sql_view_by_dsn(self) -> None:
        options = f"dsn '{self.uri('PWdsnWP')}', topic 'outbox'"
        self._spark.sql(f"create temporary view ev2 using gapless options ({options})")

    def read(self) -> None:
        df = self._spark.read.format("gapless").options(subscribe="outbox")
        assert len(df.option("url", self.uri("PWreadWP")).load().collect()) == 10

    def read_what_is_not_there(self) -> None:
        df = self._spark.read.format("gapless").options(subscribe="nowhere")
        df.option("url", self.uri("PWfailedWP")).load().collect()

    def write(self) -> None:
        rows = self._spark.range(3).selectExpr("cast(id as string) as value")
        writer = rows.write.format("gapless").option("topic", "copy").mode("append")
        writer.option("url", self.conninfo("PWwriteWP")).save()

    def stream(self) -> None:
        reader = self._spark.readStream.format("gapless").options(subscribe="outbox")
        df = reader.options(url=self.conninfo("PWinWP"), startingOffsets="earliest").load()
        writer = df.select("key", "value").writeStream.format("gapless").option("topic", "copy")
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writer.option("url", self.uri("PWoutWP")).trigger(availableNow=True).start()
        query.awaitTermination()
        (self._folder / "progress").write_text(repr(query.recentProgress))

    def pipeline(self) -> None:
        file = self._folder / "pipelines.yml"
        file.write_text(PIPELINE)
        for name, key in (("HOST", "host"), ("PORT", "port"), ("USER", "user")):
            os.environ[f"PG{name}"] = self._said[key]
        os.environ |= {"PGDATABASE": self._said["dbname"], "PGPASSWORD": "PWenvWP"}
        assert run_pipeline(load_pipelines(file)["again"], "", tell=lambda _: None) == 10


def main(whose: str, dsn: str, where: str) -> None:
    folder = Path(where)
    (folder / "log").mkdir()
    conf = {
        "spark.driver.memory": "600m",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "log").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = spark_session("local[2]", conf=conf) if whose == "gapless" else _own(conf)
    roads = Roads(spark, dsn, folder)
    ways = [roads.sql_view, roads.read, roads.read_what_is_not_there, roads.write, roads.stream]
    if whose == "gapless":
        ways += [roads.sql_view_by_dsn, roads.pipeline]
    for road in ways:
        roads.try_(road)
    pages = _pages(spark)
    spark.stop()
    for file in [*folder.glob("log/*"), *folder.glob("checkpoint/**/*"), folder / "progress"]:
        if file.is_file():
            pages[str(file.relative_to(folder))] = file.read_text(errors="replace")
    found: dict[str, list[str]] = {}
    for page, text in pages.items():
        for password in set(PASSWORD.findall(text)):
            found.setdefault(password, []).append(page)
    print(json.dumps({"found": found, "errors": roads.errors, "pages": len(pages)}))  # noqa: T201 - it is what it is for


def _own(conf: dict[str, str]) -> Any:
    """The user's own session, of which gapless knows nothing."""
    prepare()
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _pages(spark: Any) -> dict[str, str]:
    """Every page of the UI that a link leads to, and what its REST interface answers."""
    port = spark.sparkContext.uiWebUrl.rpartition(":")[2].strip("/")
    api = f"/api/v1/applications/{spark.sparkContext.applicationId}"
    asked = ["jobs", "stages?details=true", "environment", "allexecutors", "storage/rdd"]
    asked += ["sql?details=true&planDescription=true&length=1000"]
    waiting = ["/", "/SQL/", "/StreamingQuery/", "/environment/", *(f"{api}/{a}" for a in asked)]
    pages: dict[str, str] = {}
    while waiting and len(pages) < PAGES_MAX:
        path = waiting.pop(0)
        if path in pages:
            continue
        try:
            with urlopen(f"http://localhost:{port}{path}", timeout=60) as answer:
                pages[path] = answer.read().decode(errors="replace")
        except (URLError, OSError):
            pages[path] = ""
            continue
        links = re.findall(r'href="(?:https?://[^/"]+)?(/[^"]*)"', pages[path])
        waiting += [link.replace("&amp;", "&") for link in links if not SKIPPED.search(link)]
    return pages


if __name__ == "__main__":
    main(*sys.argv[1:])
