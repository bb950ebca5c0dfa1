"""The supervisor on hosts that do not let it adopt orphans, and with GPU memory that stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from draftgate.engine import process as process_module
from draftgate.engine import warden
from draftgate.engine.gpus import Gpu
from draftgate.engine.process import Exit, ServerProcess, marked_processes
from draftgate.errors import TeardownError

from tests.reliability.fake_nvml import FakeNvml

SLEEP = "import time; time.sleep(600)"
ORPHAN = (
    "import subprocess, sys, time\n"
    "inner = 'import subprocess, sys; subprocess.Popen("
    f'[sys.executable, "-c", "{SLEEP}"], start_new_session=True)\'\n'
    "subprocess.run([sys.executable, '-c', inner])\n"
    "print('ready', flush=True)\n"
    "time.sleep(600)\n"
)
GPU = Gpu(0, "GPU-aa", "H200", 1, "0")


def start(code: str, tmp_path: Path, **more: object) -> ServerProcess:
    return ServerProcess.start(
        [sys.executable, "-c", code],
        {"PATH": "/usr/bin:/bin"},
        tmp_path / "server.log",
        tmp_path,
        mark=f"test-{tmp_path.name}",
        **more,  # type: ignore[arg-type]
    )


def wait_for_log(tmp_path: Path, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in (tmp_path / "server.log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_orphan_in_a_session_of_its_own_is_ended_too(tmp_path: Path) -> None:
    server = start(ORPHAN, tmp_path)
    wait_for_log(tmp_path, "ready")
    assert len(marked_processes(f"test-{tmp_path.name}")) == 2
    server.stop()
    assert marked_processes(f"test-{tmp_path.name}") == []
    assert len(server.pids) == 2


def test_without_subreaper_and_without_pytest_nothing_is_left(tmp_path: Path) -> None:
    """PR_SET_CHILD_SUBREAPER refused: the orphan goes to init and is found by its mark."""
    copy = tmp_path / "warden.py"
    source = Path(warden.__file__).read_text()
    changed = source.replace("_PR_SET_CHILD_SUBREAPER = 36", "_PR_SET_CHILD_SUBREAPER = 99999")
    assert changed != source
    copy.write_text(changed)
    mark = f"test-{tmp_path.name}"
    order = (
        '{{"argv": ["{}", "-c", {}], "env": {{"DRAFTGATE_LAUNCH": "{}"}}, "cwd": "/", "log": "{}", '
        '"mark": "{}", "grace_s": 0.5}}\n'
    ).format(sys.executable, _json(ORPHAN), mark, tmp_path / "server.log", mark)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", str(copy)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as supervisor:
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        supervisor.stdin.write(order)
        supervisor.stdin.flush()
        assert '"subreaper": false' in supervisor.stdout.readline()
        wait_for_log(tmp_path, "ready")
        assert len(marked_processes(mark)) == 2
        supervisor.stdin.close()
        assert supervisor.wait(timeout=5) == 0
    assert marked_processes(mark) == []


def test_a_killed_supervisor_takes_the_server_along(tmp_path: Path) -> None:
    server = start(ORPHAN, tmp_path)
    wait_for_log(tmp_path, "ready")
    supervisor = psutil.Process(server.pid).parent()
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while server.watch() is None:
        assert time.monotonic() < deadline
    assert server.exit == Exit(None, "the loss of its supervisor")
    server.stop()
    assert marked_processes(f"test-{tmp_path.name}") == []


def test_a_worker_that_dies_as_soon_as_it_has_its_name_is_noticed(tmp_path: Path) -> None:
    """Seen before under its parent's name, and ended before anybody looked again."""
    child = "import time; time.sleep(1.0); open('/proc/self/comm', 'w').write('sglang::scheduler')"
    code = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', {child!r}])"
    server = start(f"{code}; time.sleep(600)", tmp_path)
    try:
        deadline = time.monotonic() + 30
        while server.watch() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert "sglang::schedul (pid" in str(server.watch())
    finally:
        server.stop()


def test_what_a_worker_forks_is_no_worker(tmp_path: Path) -> None:
    """It bears the worker's title until it runs its own command, and may end in between."""
    forks = (
        "import os, time\n"
        "open('/proc/self/comm', 'w').write('sglang::scheduler')\n"
        "for wait_s in (1.0, 0.0):\n"
        "    if not os.fork(): time.sleep(wait_s); os._exit(0)\n"
        "time.sleep(2.0)\n"
        "print('forked', flush=True)\n"
        "time.sleep(600)\n"
    )
    worker = f"subprocess.Popen(['sglang::scheduler', '-c', {forks!r}], executable=sys.executable)"
    server = start(f"import subprocess, sys, time; {worker}; time.sleep(600)", tmp_path)
    try:
        wait_for_log(tmp_path, "forked")
        time.sleep(0.5)
        assert server.watch() is None
        assert list(server.workers.values()) == ["sglang::scheduler"]
    finally:
        server.stop()


def test_the_server_gets_default_signals_and_no_input(tmp_path: Path) -> None:
    code = (
        "import signal, sys\n"
        "names = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]\n"
        "print(names == [signal.SIG_DFL] * 2, signal.getsignal(signal.SIGINT).__name__)\n"
        "print(repr(sys.stdin.read()), flush=True)\n"
    )
    server = start(code, tmp_path)
    assert server.wait(10) == Exit(0)
    server.stop()
    assert (tmp_path / "server.log").read_text() == "True default_int_handler\n''\n"


def test_memory_still_held_after_the_kill_is_loud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_module, "used_mib", lambda gpus: (500,))
    asked: list[tuple[set[int], tuple[int, ...]]] = []

    def held(gpus: object, pids: set[int], before_mib: tuple[int, ...], timeout_s: float) -> str:
        asked.append((set(pids), before_mib))
        return "13630 MiB more of GPU 0 in use than before (pid 10 holds 13630 MiB of GPU 0)"

    monkeypatch.setattr(process_module, "still_held", held)
    server = start(SLEEP, tmp_path, gpus=(GPU,))
    with pytest.raises(TeardownError, match="GPU memory: 13630 MiB more .*pid 10 holds 13630 MiB"):
        server.stop()
    assert asked == [({server.pid}, (500,))]
    assert marked_processes(f"test-{tmp_path.name}") == []


def test_memory_of_one_of_two_gpus_is_named_after_the_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(process_module, "GPU_RELEASE_LIMIT_S", 1.0)
    server = start(SLEEP, tmp_path, gpus=(GPU, Gpu(1, "GPU-bb", "H200", 1, "1")))
    nvml.used["GPU-aa"] -= 400
    nvml.used["GPU-bb"] += 400
    with pytest.raises(TeardownError, match="GPU memory: 400 MiB more of GPU 1 in use .* after 1"):
        server.stop()


def test_thirty_starts_and_stops_leak_no_descriptor(tmp_path: Path) -> None:
    me = psutil.Process()
    start(SLEEP, tmp_path).stop()
    before = (me.num_fds(), me.num_threads())
    for _ in range(30):
        start(SLEEP, tmp_path).stop()
    assert (me.num_fds(), me.num_threads()) == before
    assert me.children() == []


def _json(text: str) -> str:
    import json

    return json.dumps(text)
