"""A standalone Spark cluster of real processes, and the drivers of handlers on it."""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from chaos.process import Process, children_of, running, title
from chaos.scene import Scene
from gapless.features.spark.home import prepare
from support.ports import free_port

MASTER_LINE, DRIVERS_LINE = 6, 5  # of the proxy; executors have their driver's
START_S = 120.0
CORES = 12
CONF = """
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.driver.memory 512m
spark.executor.memory 512m
spark.executor.cores 2
spark.cores.max 2
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.ui.enabled false
"""


class Cluster:
    """A master, a worker that starts executors, and the drivers that use them."""

    def __init__(self, scene: Scene, drivers: int) -> None:
        """drivers: so many are there, as far as `replace()` is called."""
        self._wanted = drivers
        self._scene = scene
        self.drivers: list[Process] = []
        self._environ = dict(os.environ)
        self._home = prepare(self._environ)
        self._conf = scene.folder / "conf"
        self._conf.mkdir()
        # Tasks import the handlers, which have effects over sessions of their own.
        dsn = f"spark.executorEnv.GAPLESS_DSN {scene.dsn(DRIVERS_LINE)}\n"
        (self._conf / "spark-defaults.conf").write_text(CONF + dsn)
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._start("deploy.master.Master", "--port", str(port))
        _until_open(port)
        work = str(scene.folder / "work")
        self._start(
            *("deploy.worker.Worker", "--cores", str(CORES), "--memory", "8g"),
            *("--work-dir", work, self.master),
        )

    def start_driver(self) -> Process:
        """Start one more `gapless run --engine spark`."""
        driver = self._scene.start_supervisor(
            DRIVERS_LINE, arguments=("--engine", "spark", "--master", self.master), env=self._spark
        )
        self._scene.supervisors.remove(driver)  # faults of supervisors are not for it
        self.drivers.append(driver)
        return driver

    def replace(self) -> None:
        """Start drivers until there are as many as there should be."""
        while len(self.alive()) < self._wanted:
            self.start_driver()

    def alive(self) -> list[Process]:
        """The drivers that run."""
        self.drivers[:] = running(self.drivers)
        return self.drivers

    def jvms(self, driver: Process) -> list[int]:
        """The JVM of a driver."""
        return [pid for pid in driver.children() if "SparkSubmit" in title(pid)]

    def executors(self) -> list[int]:
        """The JVMs of all executors."""
        return [pid for pid in self._scene.orphans() if "ExecutorBackend" in title(pid)]

    def tasks(self) -> list[int]:
        """The Python processes of all executors in which tasks run."""
        daemons = [daemon for executor in self.executors() for daemon in children_of(executor)]
        return [pid for daemon in daemons for pid in children_of(daemon)]

    def executor_of(self, task: int) -> int | None:
        """The executor whose process this is."""
        for executor in self.executors():
            if any(task in children_of(daemon) for daemon in children_of(executor)):
                return executor
        return None

    @property
    def _spark(self) -> dict[str, str]:
        names = ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME")
        return {name: self._environ[name] for name in names if name in self._environ} | {
            "SPARK_CONF_DIR": str(self._conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self._scene.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            " -Dspark.master.rest.enabled=false",
        }

    def _start(self, name: str, *arguments: str) -> None:
        self._scene.start(
            name.rpartition(".")[2].lower(),
            MASTER_LINE,
            [
                *(str(self._home / "bin" / "spark-class"), f"org.apache.spark.{name}"),
                *("--host", "127.0.0.1", "--webui-port", "0", *arguments),
            ],
            self._spark,
        )


def work_logs(folder: Path) -> str:
    """What the executors wrote, for a run that did not get going."""
    return "\n".join(path.read_text()[-2000:] for path in folder.glob("work/*/*/stderr"))


def _until_open(port: int) -> None:
    give_up_s = time.monotonic() + START_S
    while time.monotonic() < give_up_s:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens on {port}")
