"""Ports that tests give to programs."""

import socket

import pytest

from support.ports import free_port


def test_a_free_port_is_for_a_server_and_for_nobody_else() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))  # as a client that may have any port binds
    socket.create_server(("127.0.0.1", port)).close()
