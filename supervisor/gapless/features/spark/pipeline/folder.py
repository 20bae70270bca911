"""A folder in any file system that Spark can reach, through Hadoop's own classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.errors import GaplessError, UsageError
from gapless.features.spark.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file: its place below the folder, size in bytes, milliseconds since 1970."""

    name: str
    size: int
    modified_ms: int


class Folder:
    """The folder `where`, under its given name: with a scheme, or without."""

    def __init__(self, spark: SparkSession, where: str) -> None:
        if is_connect(spark):
            raise UsageError(
                f"{where}: a target of files needs Hadoop's file systems in the driver's JVM, and "
                "Spark Connect gives none: write to a table or a topic, or without SPARK_REMOTE"
            )
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the only way to Hadoop's file systems
        self._conf: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
        self.where = where.rstrip("/")
        self._fs: Any = self._path(self.where).getFileSystem(self._conf)

    @property
    def uri(self) -> str:
        """The folder's name for programs other than Hadoop: a path if it is local."""
        found = self._fs.makeQualified(self._path(self.where)).toUri()
        return str(found.getPath() if found.getScheme() == "file" else found)

    def exists(self, below: str) -> bool:
        """Tell whether there is a file, or a folder, of that name below this one."""
        return bool(self._fs.exists(self._path(f"{self.where}/{below}")))

    def names(self, below: str = "", like: str | None = None) -> list[str]:
        """Return the names directly in the folder, or a subfolder; none if it does not exist.

        like: a pattern (a*b), for few of many: each name that is returned is some calls of the JVM.
        """
        path = self._path(f"{self.where}/{below}" if below else self.where)
        if not self._fs.exists(path):
            return []
        only = () if like is None else (self._jvm.org.apache.hadoop.fs.GlobFilter(like),)
        there = self._fs.listStatus(path, *only)
        return sorted(str(each.getPath().getName()) for each in there)

    def parquet_files(self, below: str) -> list[File]:
        """Return the Parquet files below a subfolder, by their names relative to it."""
        path = self._path(f"{self.where}/{below}")
        bare = str(path.toUri().getPath())
        found = []
        listing = self._fs.listFiles(path, True)  # noqa: FBT003 - Java's
        while listing.hasNext():
            each = listing.next()
            name = str(each.getPath().toUri().getPath()).removeprefix(bare).strip("/")
            if name.endswith(".parquet"):
                size, modified_ms = each.getLen(), each.getModificationTime()
                found.append(File(name=name, size=size, modified_ms=modified_ms))
        return sorted(found, key=lambda file: file.name)

    def parquet_rows(self, name: str) -> int:
        """Return the number of rows of a Parquet file, from its footer."""
        parquet = self._jvm.org.apache.parquet.hadoop
        path = self._path(f"{self.where}/{name}")
        reader = parquet.ParquetFileReader.open(
            parquet.util.HadoopInputFile.fromPath(path, self._conf)
        )
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def remove(self, below: str) -> None:
        """Remove a subfolder, if it exists."""
        self._fs.delete(self._path(f"{self.where}/{below}"), True)  # noqa: FBT003 - Java's

    def move(self, source: str, goal: str) -> None:
        """Rename a file, both names in full; an existing target stays unchanged."""
        if self._fs.exists(self._path(goal)):
            return
        self._fs.mkdirs(self._path(goal).getParent())
        if not self._fs.rename(self._path(source), self._path(goal)):
            raise GaplessError(f"cannot move {source} to {goal}: the file system refuses")

    def _path(self, where: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(where)
