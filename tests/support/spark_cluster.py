"""A standalone cluster of Spark whose machines see nothing of this checkout or its environment.

Each worker is in a mount namespace of its own, where both folders are empty; its Spark and its Python
are elsewhere. Where this user may not make namespaces, the folders are merely not named to it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.request import urlopen

from chaos.process import children_of, title
from support.ports import free_port

ROOT = Path(__file__).parents[2]
EXTRA = "spark-provided"
PATIENCE_S = 120.0
_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([\w,-]+)\])?")
_EXTRA = re.compile(r"extra == ['\"]([\w-]+)")
_EXECUTOR = "CoarseGrainedExecutorBackend"


def may_hide() -> bool:
    """Tell whether this user may make mount namespaces."""
    tool = shutil.which("unshare")
    return tool is not None and not subprocess.run([tool, "-m", "true"], check=False).returncode


def make_python(folder: Path, *, ours: bool = True) -> Path:
    """Make an environment with the packages of the extra, copied from this one, and no PySpark.

    ours: gapless as a wheel has it, too.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "lib" / version / "site-packages"
    subprocess.run(
        [sys._base_executable, "-m", "venv", "--without-pip", str(folder)],  # type: ignore[attr-defined]
        check=True,
    )
    for name in _needed("gapless", EXTRA):
        _copy(name, site)
    if ours:
        with zipfile.ZipFile(zip_of_package(folder / "gapless.zip")) as packed:
            packed.extractall(site)
    return folder / "bin" / "python"


def zip_of_package(path: Path) -> Path:
    """Make a zip with the files of the wheel, for --py-files."""
    with zipfile.ZipFile(path, "w") as packed:
        for below, prefix in (
            ("supervisor/gapless", "gapless"),
            ("supervisor/pyspark_gapless", "pyspark_gapless"),
            ("sql", "gapless/_sql"),
        ):
            for file in sorted((ROOT / below).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    packed.write(file, Path(prefix) / file.relative_to(ROOT / below))
    return path


def _needed(name: str, extra: str) -> set[str]:
    """Return the names of the installed packages that one needs, with those that they need."""
    found: set[str] = set()
    waiting = [(name, {extra})]
    while waiting:
        each, extras = waiting.pop()
        for text in distribution(each).requires or ():
            said = _REQUIREMENT.match(text)
            assert said is not None, text
            only = _EXTRA.search(text)
            if (only is None or only[1] in extras) and said[1] not in found and _is_there(said[1]):
                found.add(said[1])
                waiting.append((said[1], set((said[2] or "").split(","))))
    return found - {name}


def _is_there(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False  # it is for another platform
    return True


def _copy(name: str, site: Path) -> None:
    """Link the files of an installed package to another environment, or copy them."""
    for file in distribution(name).files or ():
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        place = site / file
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(Path(str(file.locate())).resolve(), place)
        except FileExistsError:
            continue
        except OSError:
            shutil.copy2(Path(str(file.locate())), place)


class Cluster:
    """A master and its workers; `url` is for drivers, `log` has the output of all."""

    def __init__(self, folder: Path, spark_home: Path, java: str) -> None:
        self.folder = folder
        self.log = folder / "cluster.log"
        self._home = spark_home
        self._java = java
        self._port = free_port()
        self.url = f"spark://127.0.0.1:{self._port}"
        self._web = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int, *, memory: str = "1g") -> None:
        self._run(
            *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
            *("--port", str(self._port), "--webui-port", str(self._web)),
            hidden=False,
        )
        for _ in range(workers):
            self._run(
                *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
                *("--cores", "1", "--memory", memory, "--webui-port", "0"),
                *("--work-dir", str(self.folder / "work"), self.url),
                hidden=may_hide(),
            )
        give_up_s = time.monotonic() + PATIENCE_S
        while self._alive() < workers:
            assert time.monotonic() < give_up_s, self.log.read_text()
            time.sleep(0.2)

    def executors(self) -> list[int]:
        """Return the processes of the executors that run."""
        return [
            pid
            for worker in self.processes[1:]
            for pid in children_of(worker.pid)
            if _EXECUTOR in title(pid)
        ]

    def stop(self) -> None:
        for process in reversed(self.processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _alive(self) -> int:
        try:
            with urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=5) as answer:
                return answer.read().decode().count('"ALIVE"') - 1
        except OSError:
            return -1

    def _run(self, *words: str, hidden: bool) -> None:
        home = self._home
        if hidden:
            home = self.folder / "spark"
            home.mkdir(exist_ok=True)
        command = [self._java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += ["-cp", f"{home}/jars/*", *words]
        if hidden:
            script = f'mount --bind "{self._home}" "{home}"\n'
            for folder in sorted({str(ROOT), sys.prefix}, key=len, reverse=True):
                script += f'mount -t tmpfs none "{folder}"\n'
            command = ["unshare", "-m", "sh", "-ec", f'{script}cd /\nexec "$@"', "sh", *command]
        kept = ("HOME", "LANG", "TMPDIR")
        environ = {name: os.environ[name] for name in kept if name in os.environ}
        environ |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "SPARK_HOME": str(home)}
        (core,) = (self._home / "jars").glob("spark-core_*.jar")
        scala = core.name.removeprefix("spark-core_").partition("-")[0]
        environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": scala}
        with self.log.open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    command, env=environ, stdout=log, stderr=log, start_new_session=True
                )
            )


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Return a running cluster; no process of it is left afterwards."""
    from gapless.features.spark.home import find_java, java_command, pyspark_folder

    environ = dict(os.environ)
    java_home = find_java(environ)
    if java_home is not None:
        environ["JAVA_HOME"] = str(java_home)
    made = Cluster(folder, pyspark_folder(), java_command(environ))
    try:
        made.start(workers)
        yield made
    finally:
        made.stop()
