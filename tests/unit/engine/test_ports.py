from __future__ import annotations

import socket

import pytest

from fixtures.engine.ports import ephemeral_range, free_port, is_free, require_free
from fixtures.errors import EngineError


def test_a_hundred_ports_are_free_and_never_repeat_while_held() -> None:
    held = []
    try:
        for _ in range(100):
            port = free_port()
            assert is_free(port)
            listener = socket.socket()
            listener.bind(("127.0.0.1", port))
            listener.listen()
            held.append(listener)
            assert not is_free(port)
        assert len({listener.getsockname()[1] for listener in held}) == 100
    finally:
        for listener in held:
            listener.close()


def test_no_port_can_be_the_source_of_an_outgoing_connection() -> None:
    lowest, highest = ephemeral_range()
    ports = [free_port() for _ in range(200)]
    assert not [port for port in ports if lowest <= port <= highest]
    assert len(set(ports)) > 150


def test_a_taken_port_is_named_with_the_command_that_shows_its_holder() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(EngineError, match=f"Port {port} .* taken .*ss -ltnp 'sport = :{port}'"):
            require_free(port)
    require_free(port)
