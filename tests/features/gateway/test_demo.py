"""`gapless demo --gateway`: the flights can be followed over HTTP while they play."""

import re
import socket
import subprocess
import sys

import httpx
import pytest

from support.commands import environment
from support.fleet import until


@pytest.mark.long
@pytest.mark.slow
def test_the_flights_can_be_followed(server_dsn: str, tmp_path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as output:
        words = ["demo", "--flights", "40", "--speed", "20", "--gateway", "127.0.0.1:0"]
        demo = subprocess.Popen(
            [sys.executable, "-m", "gapless", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(GAPLESS_DSN=server_dsn),
        )
    try:
        said = until(
            lambda: re.search(r"curl -N (\S+)/v1/topics/(\w+)/stream", out.read_text()),
            "the address is told",
            within=out.read_text,
        )
        url, topic = said[1], said[2]
        with httpx.stream("GET", f"{url}/v1/topics/{topic}/stream?from=earliest") as answer:
            data = (line for line in answer.iter_lines() if line.startswith("data: "))
            assert '"topic": "flights"' in next(data)
        assert demo.wait(120) == 0, out.read_text()
    finally:
        demo.kill()
        demo.wait()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz")


def test_a_taken_address_is_said(bare, dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = bare("demo", "--flights", "1", "--gateway", address, GAPLESS_DSN=dsn)
    assert f"a gateway cannot listen at {address}" in done.err
    assert done.code != 0
