"""A gateway beside the demo: the same log over HTTP, in a browser or with curl."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

from rich.console import Console

from gapless.errors import GaplessError
from gapless.features.server.postgres.account import dies_with_us

START_S_MAX = 30.0
STOP_S_MAX = 10.0
_URL = re.compile(r"gateway: (http://\S+)")
_COMMAND = [sys.executable, "-m", "gapless", "gateway", "--operate", "--log-format", "text"]


@contextlib.contextmanager
def gateway(screen: Console, dsn: str, folder: Path, address: str) -> Iterator[None]:
    """Serve the database at an address within the block, and print the address.

    Raises GaplessError if that fails, with the gateway's output.
    """
    log = folder / "gateway.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [*_COMMAND, "--listen", address],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "GAPLESS_DSN": dsn},
            start_new_session=True,  # Ctrl-C is for the demo, which then drains it
            preexec_fn=dies_with_us(signal.SIGTERM),  # noqa: PLW1509 - kill -9, too
        )
    try:
        url = _url(process, log)
        screen.print(f"Over HTTP: {url}/v1/status", highlight=False)
        screen.print(f"Watch the flights: curl -N {url}/v1/topics/flights/stream", highlight=False)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    give_up_s = monotonic() + START_S_MAX
    while monotonic() < give_up_s:
        text = log.read_text()
        found = _URL.search(text)
        if found is not None:
            return found[1]
        if process.poll() is not None:
            said = text.strip().splitlines() or ["it said nothing"]
            raise GaplessError(f"the gateway did not start: {said[-1].removeprefix('gapless: ')}")
        sleep(0.05)
    raise GaplessError(f"the gateway did not start within {START_S_MAX:.0f} s")
