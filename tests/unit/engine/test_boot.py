"""Every way a boot can end, with real processes: the right error, soon, and nothing left."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from draftgate.engine.boot import launch
from draftgate.engine.plan import Launch
from draftgate.engine.ports import is_free
from draftgate.engine.process import ServerProcess, marked_processes
from draftgate.engine.server import RunningServer
from draftgate.errors import (
    BootError,
    EngineError,
    ForeignServer,
    ServerDied,
    ServerExited,
    ServerFailed,
)

Plan = Callable[..., Launch]
SOON_S = 30.0
"""Far below the specs' limit of 60 s: it proves that nobody waits for the limit."""


def assert_nothing_left(plan: Launch) -> None:
    assert marked_processes(plan.served_model_name) == []
    assert not [child for child in psutil.Process().children(recursive=True) if child.is_running()]
    assert is_free(plan.port)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("readiness")]


def failure_of(plan: Launch, kind: type[BootError]) -> str:
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        launch(plan)
    assert type(caught.value) is kind
    assert time.monotonic() - started < SOON_S
    assert_nothing_left(plan)
    message = str(caught.value)
    assert len(message.splitlines()) <= 15
    assert plan.spec.id in message
    assert f"log: {plan.artifacts / 'server.log'}" in message
    assert "-m sglang.launch_server --model-path" in message
    return message


@pytest.mark.parametrize("fault", ["none", "old_server_info", "log_200_kb", "junk", "grandchild"])
def test_a_healthy_server_becomes_ready_and_leaves_nothing(plan_stand_in: Plan, fault: str) -> None:
    plan = plan_stand_in(fault)
    seen: list[tuple[str, float]] = []
    server = launch(plan, lambda phase, elapsed_s: seen.append((phase, elapsed_s)))
    try:
        server.check_alive()
        assert server.info["served_model_name"] == plan.served_model_name
        assert server.info["port"] == plan.port
        assert server.base_url == f"http://127.0.0.1:{plan.port}"
        assert seen[0][0] == "imports"
        assert sum(server.log.durations_s().values()) <= server.boot_s
        assert server.boot_s < SOON_S
        assert (plan.artifacts / "command.txt").read_text().count("sglang.launch_server") == 1
    finally:
        exit_ = server.stop()
    assert exit_ is not None
    assert exit_.signal == "SIGTERM"
    assert_nothing_left(plan)
    server.stop()


def test_every_data_parallel_rank_generates_before_a_server_is_ready(plan_stand_in: Plan) -> None:
    server = launch(plan_stand_in("none", dp=3))
    try:
        log = server.log_text()
        assert all(f" DP{rank}] Decode batch" in log for rank in range(3))
        assert len(server.info["internal_states"]) == 3
    finally:
        server.stop()


def test_a_program_that_cannot_be_started(plan_stand_in: Plan, tmp_path: Path) -> None:
    plan = plan_stand_in("none")
    absent = tmp_path / "absent"
    command = (str(absent), *plan.command[1:])
    gone = Launch(
        *(plan.spec, command, plan.environment, plan.port, plan.served_model_name),
        *(plan.artifacts, (), None, plan.secrets),
    )
    message = failure_of(gone, ServerExited)
    assert f"{absent} could not be started" in message
    assert "exit code 127" in message


def test_a_silent_end_on_a_full_disk_is_explained(
    plan_stand_in: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=4096))
    plan = plan_stand_in("disk_full")
    message = failure_of(plan, ServerExited)
    assert f"hint: the disk of {plan.artifacts} is full" in message


def test_a_short_generation_is_not_ready(plan_stand_in: Plan) -> None:
    message = failure_of(plan_stand_in("too_few_tokens"), ServerFailed)
    assert "the first generation returned [15] tokens, expected 16" in message


def test_another_name_behind_the_port_is_foreign(plan_stand_in: Plan) -> None:
    message = failure_of(plan_stand_in("another_name"), ForeignServer)
    assert "it serves 'somebody-else'" in message


def test_a_taken_port_is_refused_before_the_launch(plan_stand_in: Plan) -> None:
    plan = plan_stand_in("none")
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", plan.port))
        stranger.listen()
        with pytest.raises(EngineError, match=f"Port {plan.port} on 127.0.0.1 is taken"):
            launch(plan)
    assert_nothing_left(plan)


def test_a_server_that_ignores_sigterm_is_killed(plan_stand_in: Plan) -> None:
    plan = plan_stand_in("ignores_sigterm")
    server = launch(plan)
    started = time.monotonic()
    exit_ = server.stop(grace_s=0.3)
    assert time.monotonic() - started < SOON_S
    assert exit_ is not None
    assert exit_.signal == "SIGKILL"
    assert_nothing_left(plan)


@pytest.mark.parametrize("victim", ["main", "worker"])
def test_a_death_after_ready_is_noticed_within_half_a_second(
    plan_stand_in: Plan, victim: str
) -> None:
    plan = plan_stand_in("none")
    server = launch(plan)
    try:
        main = psutil.Process(server.process.pid)
        [worker] = main.children()
        wait_until_watched(server.process, worker.pid)
        os.kill(main.pid if victim == "main" else worker.pid, signal.SIGKILL)
        killed = time.monotonic()
        with pytest.raises(ServerDied) as caught:
            check_until_dead(server)
        assert time.monotonic() - killed < 0.5
        expected = (
            "killed by SIGKILL" if victim == "main" else f"sglang::scheduler (pid {worker.pid})"
        )
        assert expected in str(caught.value)
    finally:
        server.stop()
    assert_nothing_left(plan)


def check_until_dead(server: RunningServer) -> None:
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        server.check_alive()
        time.sleep(0.005)


def wait_until_watched(process: ServerProcess, pid: int) -> None:
    """The supervisor reads the process table at intervals; a worker is known after one of them."""
    deadline = time.monotonic() + SOON_S
    while pid not in process.workers:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    assert process.workers == {pid: "sglang::scheduler"}


def test_an_interrupt_during_the_boot_leaves_nothing(plan_stand_in: Plan) -> None:
    plan = plan_stand_in("hang")

    def interrupt(phase: str, elapsed_s: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(plan, interrupt)
    assert_nothing_left(plan)


def test_secrets_stay_out_of_messages_and_artifacts(
    plan_stand_in: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, key = "hf_" + "a" * 30, "planted-key-4711"
    monkeypatch.setenv("HF_TOKEN", token)
    monkeypatch.setenv("DRAFTGATE_API_KEY", key)
    plan = plan_stand_in("exit_3")
    message = failure_of(plan, ServerExited)
    everything = message + "".join(
        path.read_text(errors="replace") for path in plan.artifacts.iterdir()
    )
    assert token not in everything
    assert key not in everything
    assert "--api-key ***" in message


BOOT_AND_SLEEP = """
import json, sys, time
sys.path[:0] = [{root!r}]
from pathlib import Path
from draftgate.engine.process import ServerProcess
process = ServerProcess.start(
    {command!r}, {env!r}, Path({log!r}), Path({cwd!r}), mark={mark!r}, port={port}
)
print(process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("fault", ["none", "ignores_sigterm", "grandchild"])
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_its_parent(
    plan_stand_in: Plan, tmp_path: Path, fault: str, death: signal.Signals
) -> None:
    plan = plan_stand_in(fault)
    mark = plan.served_model_name
    script = textwrap.dedent(BOOT_AND_SLEEP).format(
        root=str(Path(__file__).parents[3] / "fixtures"),
        command=plan.command,
        env=dict(plan.environment.variables),
        cwd=str(tmp_path),
        port=plan.port,
        log=str(tmp_path / "server.log"),
        mark=mark,
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        deadline = time.monotonic() + SOON_S
        while is_free(plan.port):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert marked_processes(mark)
        parent.send_signal(death)
        killed = time.monotonic()
        parent.wait()
    # A process that exits loses its environment a moment before its sockets.
    while marked_processes(mark) or not is_free(plan.port):
        assert time.monotonic() - killed < 5.0
        time.sleep(0.02)
