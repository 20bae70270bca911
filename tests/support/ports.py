"""A port for a program that cannot report the one it took."""

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 that for a minute only a process that names it can get.

    A port that was merely closed can go to any process, also to a client that connects now. This
    one has just had a connection: so the kernel assigns it to no other process, but lets a server
    that names it listen there.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as client:
            server.accept()[0].close()  # the side that closes first has to wait
            assert not client.recv(1)
    return port
