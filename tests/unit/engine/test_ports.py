from __future__ import annotations

import random
import socket
from http.client import HTTPConnection

import pytest

from fixtures.catalog.select import load_profiles
from fixtures.engine.ports import ephemeral_range, free_port, is_free, require_free
from fixtures.engine.readiness import ReadinessProbe
from fixtures.errors import EngineError


def test_a_hundred_ports_are_free_and_never_repeat_while_held() -> None:
    held = []
    try:
        for _ in range(100):
            port = free_port()
            assert is_free(port)
            listener = socket.socket()
            held.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            listener.bind(("127.0.0.1", port))
            listener.listen()
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


def test_one_seed_does_not_mean_one_port() -> None:
    random.seed(0)
    first = free_port()
    random.seed(0)
    assert free_port() != first


def test_a_taken_port_is_named_with_the_command_that_shows_its_holder() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(EngineError, match=f"Port {port} .* taken .*ss -ltnp 'sport = :{port}'"):
            require_free(port)
    require_free(port)


def test_a_probe_that_is_its_own_peer_lets_the_port_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bind a probe to the very port it asks: TCP connects it to itself, as the kernel may do."""
    port = free_port()

    def connect_to_itself(self: HTTPConnection) -> None:
        self.sock = socket.socket()  # closed by the probe, as any connection
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(("127.0.0.1", port))
        self.sock.connect(("127.0.0.1", port))

    monkeypatch.setattr(HTTPConnection, "connect", connect_to_itself)
    spec = next(s for s in load_profiles()["tiny"].servers if s.id == "tiny/none/cpu")
    probe = ReadinessProbe(spec, port=port, served_model_name="ours", api_key=None)
    with pytest.raises(ConnectionRefusedError, match="connected to itself"):
        probe._ask("GET", "/health", 1.0)
    require_free(port)
