"""A port for a program that cannot say which one it took."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 that for a minute nobody gets who does not name it.

    One that was closed again is anybody's: of a client that connects meanwhile, too. This one has just had a
    connection: the kernel gives it to nobody so long, and lets a server that names it listen there.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()  # who closes first is who has to wait
            assert not client.recv(1)
    return port
