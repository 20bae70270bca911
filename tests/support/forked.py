"""The command `gapless` as a fork of a process that has its modules loaded already.

A command takes 0.03 s in a process of its own instead of 0.4 s. It ends as any program does: its exit code, its
output to the last flush, its atexit functions, its threads. Only its memory is not freed: in a
copy of such a process that alone took 0.18 s. With --long the first run of each command is a real program.

The parent sends a line of JSON with three descriptors (stdin, stdout, stderr), and is sent pid and exit code.
"""

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

WORDS_BYTES_MAX = 1 << 20
# Variables that Python reads once, at its start.
_READ_ONCE = ("PYTHON", "LC_", "LANG", "LANGUAGE")
# Commands that start processes themselves, or look at how they were started.
_REAL = {"run", "demo", "server", "completion", "pipeline"}


class Forks:
    """The process that forks, from its start to close()."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environ = dict(os.environ)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "support.forked", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=self._environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def can(self, words: Sequence[str | bytes], env: Mapping[str, str]) -> bool:
        """Tell whether a fork would behave like a program."""
        return not _REAL & {os.fsdecode(word) for word in words} and all(
            env.get(name) == self._environ.get(name)
            for name in {*env, *self._environ}
            if name.startswith(_READ_ONCE) and name != "PYTHONUNBUFFERED"
        )

    def run(
        self, words: Sequence[str | bytes], stdin: bytes, env: Mapping[str, str], timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """Run `gapless` with these words to its end; return its exit code, stdout and stderr."""
        wanted = {
            "words": [os.fsdecode(word) for word in words],
            "env": dict(env),
            "cwd": str(Path.cwd()),
        }
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            descriptors = [given.fileno(), out.fileno(), err.fileno()]
            self._socket.settimeout(timeout_s)
            socket.send_fds(self._socket, [json.dumps(wanted).encode()], descriptors)
            pid = int(self._socket.recv(100))
            try:
                code = int(self._socket.recv(100))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._socket.recv(100)
                raise subprocess.TimeoutExpired(["gapless", *words], timeout_s) from None
            out.seek(0)
            err.seek(0)
            return code, out.read(), err.read()

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _serve(server: socket.socket) -> list[str]:
    """Fork for each request; return, in the child, the command's words."""
    while True:
        line, descriptors, _, _ = socket.recv_fds(server, WORDS_BYTES_MAX, 3)
        if not line:
            os._exit(0)  # it must clean up nothing, and no coverage is measured here
        pid = os.fork()
        if pid == 0:
            server.close()
            return _become(json.loads(line), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        server.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        server.send(str(os.waitstatus_to_exitcode(status)).encode())


def _become(wanted: dict[str, object], descriptors: list[int]) -> list[str]:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(str(wanted["cwd"]))
    os.environ.clear()
    os.environ.update(wanted["env"])  # type: ignore[call-overload]
    sys.path[0] = str(wanted["cwd"])  # as `python -m`
    return list(wanted["words"])  # type: ignore[call-overload]


def _end(code: int) -> None:
    """End as sys.exit() does, without freeing memory; return only if the output cannot be flushed."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):  # Python reports the error itself
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    from gapless.cli.commands import COMMANDS, parser_of
    from gapless.cli.main import main

    for name in COMMANDS:
        with suppress(Exception):
            parser_of(name)
    gc.collect()
    gc.freeze()  # or a child's first collection would copy every page
    code = main(_serve(socket.socket(fileno=int(sys.argv[1]))))
    _end(code)
    sys.exit(code)
