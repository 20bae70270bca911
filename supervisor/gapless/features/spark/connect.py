"""Sessions of Spark Connect: a client whose Spark, with the JVM and the driver, is elsewhere."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gapless.errors import GaplessError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT = 15002
_REACH_S = 10.0
HIDDEN = "*********(redacted)"  # Spark's word for a value that matches spark.redaction.regex
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")


def connect_address(master: str | None, conf: Mapping[str, str]) -> str | None:
    """Return the address of Spark Connect, if it is asked for; local[N]: a server in this process.

    It is asked for by a master sc://…, spark.remote or SPARK_REMOTE, or spark.api.mode=connect.
    Raises UsageError for two contradicting places.
    """
    if master is not None and master.startswith("sc://"):
        return master
    remote = conf.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    if remote:
        if master not in (None, remote):
            raise UsageError(
                f"Spark Connect is at {_shown(remote)}, by SPARK_REMOTE or spark.remote, and the "
                f"master is {master}: leave one of them out"
            )
        return remote
    if (conf.get("spark.api.mode") or os.environ.get("SPARK_API_MODE", "")).lower() == "connect":
        return master or conf.get("spark.master") or "local[*]"
    return None


def running_connect() -> SparkSession | None:
    """Return the session of Spark Connect that this process has, if there is one."""
    module: Any = sys.modules.get("pyspark.sql.connect.session")
    if module is None:
        return None
    found: SparkSession | None = module.SparkSession.getActiveSession()
    return found or module.SparkSession._get_default_session()  # noqa: SLF001 - as getOrCreate()


def is_connect(session: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect, without a JVM in this process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def start_connect(remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session. settings: for a server of this process, local[N], alone.

    Raises UsageError without the packages, GaplessError for a server that cannot be reached.
    """
    try:
        import pyspark.sql.connect.session  # noqa: F401 - to see whether its packages are there
        from pyspark.sql import SparkSession
    except ImportError as error:
        line = " ".join(str(error).split())
        raise UsageError(
            f"Spark Connect lacks a package: {line}: pip install 'gapless[spark-connect]'"
        ) from error
    builder: Any = SparkSession.builder.remote(remote)
    if remote.startswith("sc://"):
        _require_listener(remote)
    else:
        builder = builder.config(map=dict(settings))
    with warnings.catch_warnings():
        # Spark's client sends the settings of the server's start to the server once more.
        warnings.filterwarnings("ignore", "Failed to set")
        session: SparkSession = builder.getOrCreate()
    return session


def setting_of(session: SparkSession, key: str) -> str | None:
    """Return a setting of Spark SQL, None if there is none; HIDDEN if a server does not show it."""
    if not is_connect(session):
        return session.conf.get(key, None)
    ((_, value),) = session.sql(f"set {key}").collect()
    return None if value == "<undefined>" else str(value)


def without_parameters(text: str, remote: str) -> str:
    """Return a text of Spark's client without the parameters of the address, which it may quote."""
    for parameter in filter(None, remote.split(";")[1:]):
        text = text.replace(parameter, "...")
    return text


def _require_listener(remote: str) -> None:
    """Raise GaplessError where no server listens: Spark's client would try for ten minutes."""
    if any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES):
        return
    try:
        parts = urlsplit(remote)
        where = (parts.hostname or "", parts.port or PORT)
    except ValueError as error:
        raise UsageError(
            f"{_shown(remote)} is no address like sc://host:{PORT}: {error}"
        ) from error
    try:
        socket.create_connection(where, timeout=_REACH_S).close()
    except OSError as error:
        raise GaplessError(f"cannot reach Spark Connect at {_shown(remote)}: {error}") from error


def _shown(remote: str) -> str:
    """Return an address without its parameters: a token may be among them."""
    return remote.split(";", maxsplit=1)[0].rstrip("/")
