"""The address of Spark Connect: by which words it is asked for, and which contradict each other."""

from __future__ import annotations

import re
import sys
from socket import socket
from subprocess import run

import pytest

from gapless.errors import GaplessError, UsageError
from gapless.features.spark.connect import connect_address, start_connect

Words = dict[str, str]
HOST = "sc://spark:15002"


@pytest.mark.parametrize(
    ("master", "conf", "environment", "address"),
    [
        (None, {}, {}, None),
        ("local[2]", {}, {}, None),
        ("spark://host:7077", {}, {"SPARK_API_MODE": "classic"}, None),
        (HOST, {}, {}, HOST),
        (HOST, {}, {"SPARK_REMOTE": "sc://other"}, HOST),
        (None, {}, {"SPARK_REMOTE": HOST}, HOST),
        (HOST, {}, {"SPARK_REMOTE": HOST}, HOST),
        (None, {"spark.remote": HOST}, {"SPARK_REMOTE": "sc://other"}, HOST),
        (None, {}, {"SPARK_REMOTE": "local[1]"}, "local[1]"),
        ("local[2]", {"spark.api.mode": "connect"}, {}, "local[2]"),
        (None, {"spark.master": "local[3]"}, {"SPARK_API_MODE": "Connect"}, "local[3]"),
        (None, {}, {"SPARK_API_MODE": "connect"}, "local[*]"),
    ],
)
def test_an_address(
    monkeypatch: pytest.MonkeyPatch,
    master: str | None,
    conf: Words,
    environment: Words,
    address: str | None,
) -> None:
    for name in ("SPARK_REMOTE", "SPARK_API_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert connect_address(master, conf) == address


def test_two_places_are_refused_without_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", f"{HOST}/;token=PWtoken")
    with pytest.raises(
        UsageError, match=f"{HOST}, by SPARK_REMOTE .* the master is yarn"
    ) as caught:
        connect_address("yarn", {})
    assert "PWtoken" not in str(caught.value)


OPENED = """
import sys
from gapless.errors import GaplessError
from gapless.features.spark.session import spark_session
try:
    spark_session(sys.argv[1])
except GaplessError as error:
    print(error)
"""


def test_an_address_that_sparks_client_refuses_is_told_without_the_token() -> None:
    """The client quotes a parameter that has no value. A process that had a session refuses before."""
    pytest.importorskip("grpc", reason="grpcio cannot be had here")
    with socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"sc://127.0.0.1:{listening.getsockname()[1]}/;PWtoken"
        done = run([sys.executable, "-c", OPENED, address], capture_output=True, text=True)  # noqa: PLW1510
    assert re.search(r"INVALID_CONNECT_URL.*'\.\.\.'", done.stdout), done
    assert "PWtoken" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("address", "says"),
    [("sc://127.0.0.1:1/;token=PWtoken", "cannot reach"), ("sc://host:port", "is no address like")],
)
def test_a_server_that_cannot_be_is_named_at_once(address: str, says: str) -> None:
    pytest.importorskip("grpc", reason="grpcio cannot be had here")
    with pytest.raises(GaplessError, match=says) as caught:
        start_connect(address, {})
    assert "PWtoken" not in str(caught.value)
