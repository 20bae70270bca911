"""Serve the application for a moment, sign up three people, and ask what became of them.

python examples/fastapi/play.py; needs fastapi and uvicorn: pip install fastapi uvicorn
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any
from urllib.request import Request, urlopen

import uvicorn

import gapless

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from app import app, create_tables  # noqa: E402 - needs the path above
from playing import prepare, supervisor  # noqa: E402

TIMEOUT_S = 60


@contextmanager
def served() -> Iterator[str]:
    """Serve the application on a free port, on a thread; yields its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started and thread.is_alive():
            sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def ask(url: str, what: dict[str, str] | None = None) -> Any:
    """GET, or POST some JSON; return the JSON that comes."""
    body = None if what is None else json.dumps(what).encode()
    request = Request(url, data=body, headers={"Content-Type": "application/json"})  # noqa: S310
    with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - our own server
        return json.load(answer)


def main() -> int:
    """Play; return 0 when all is as it has to be."""
    became = {}
    with gapless.connect(autocommit=True) as conn:  # from here on the embedded server stays
        prepare({"signups": "welcome"})
        create_tables(conn)
        with served() as address, supervisor(HERE / "app.py"):
            for name in ("Ada", "Mallory", "Grace"):
                signup = ask(f"{address}/signups", {"name": name})
                became[name] = ask(f"{address}{signup['look'].replace('=5', '=30')}")["state"]
                print(f"{name}: {became[name]}")
    return 0 if became == {"Ada": "handled", "Mallory": "dead", "Grace": "handled"} else 1


if __name__ == "__main__":
    sys.exit(main())
