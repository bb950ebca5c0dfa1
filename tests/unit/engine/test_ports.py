from __future__ import annotations

import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from draftgate.engine import ports
from draftgate.engine.ports import (
    ephemeral_range,
    free_port,
    is_free,
    is_listening,
    release_port,
    require_free,
)
from draftgate.errors import EngineError


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


TEN_PORTS = """
import sys
from draftgate.engine import ports
ports.LOWEST, ports.HIGHEST = 20_000, 20_149
ports.ephemeral_range = lambda: (20_150, 65_535)
print(*(ports.free_port() for _ in range(10)), flush=True)
sys.stdin.read()
"""


def test_a_hundred_ports_of_ten_processes_never_collide() -> None:
    """Out of 150, so that chance alone would give the same port twice many times."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", TEN_PORTS],
            cwd=Path(__file__).parents[3] / "fixtures",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(10)
    ]
    try:
        lines = [process.stdout.readline() for process in processes if process.stdout]
    finally:
        for process in processes:
            process.communicate()
    chosen = [int(port) for line in lines for port in line.split()]
    assert len(chosen) == 100
    assert len(set(chosen)) == 100


def test_a_port_can_be_chosen_again_once_its_server_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "LOWEST", 20_200)
    monkeypatch.setattr(ports, "HIGHEST", 20_200)
    monkeypatch.setattr(ports, "ephemeral_range", lambda: (20_201, 65_535))
    assert free_port() == 20_200
    with pytest.raises(EngineError, match="No free port on 127.0.0.1"):
        free_port()
    release_port(20_200)
    assert free_port() == 20_200
    release_port(20_200)


def test_no_port_can_be_the_source_of_an_outgoing_connection() -> None:
    lowest, highest = ephemeral_range()
    chosen = [free_port() for _ in range(200)]
    assert not [port for port in chosen if lowest <= port <= highest]
    assert len(set(chosen)) == 200


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

    def bound_to_what_it_asks(host: str) -> socket.socket:
        probe = socket.socket()
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return probe

    with monkeypatch.context() as patch:
        patch.setattr("draftgate.engine.ports._socket", bound_to_what_it_asks)
        assert not is_listening(port)
    require_free(port)


def test_who_listens_is_heard() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert not is_listening(port)
        listener.listen()
        assert is_listening(port)
