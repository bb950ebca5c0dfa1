"""The faults, and when they begin."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

SLEEP = "import time; time.sleep(600)"
LISTEN = (
    "import socket, sys, time\n"
    "ear = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    "print('listening', flush=True)\n"
    "time.sleep(600)\n"
)
BROKEN_SOURCE = "x = 1\ndef f(:\n"

fault, _, _spared = os.environ.get("FAKE_SGLANG_FAULT", "none").partition("@")
spared = int(_spared or 0)
"""Generations that are answered well before the fault."""


def begins(generation: int, *names: str) -> bool:
    """Whether one of these faults is in force for this generation (counted from 0)."""
    if fault not in names or generation < spared:
        return False
    note_begin()
    return True


def note_begin() -> None:
    """Leave the moment of the fault in the working folder; the clock is one for all processes."""
    if not Path("fault-began").exists():
        Path("fault-began").write_text(str(time.monotonic()))


def note_process(pid: int) -> None:
    """Leave a process id in the working folder, for whoever checks that nothing is left."""
    with Path("pids").open("a") as file:
        file.write(f"{pid}\n")


def log(text: str, mark: str = "") -> None:
    """One line as SGLang writes it; `mark` names the rank that does."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    sys.stderr.write(f"[{stamp}{mark}] {text}\n")
    sys.stderr.flush()


def say(text: str) -> None:
    """Lines without a stamp: a traceback."""
    sys.stderr.write(text)
    sys.stderr.flush()


def before_imports_end() -> None:
    """Faults of the time in which SGLang still imports and loads."""
    note_process(os.getpid())
    if fault == "ignores_sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif fault == "grandchild":
        _grandchild(dict(os.environ))
    elif fault == "grandchild_without_environment":
        _grandchild({})
    elif fault == "log_200_kb":
        _chatter(200_000)
    elif fault in {"log_20_mb", "exit_3_after_20_mb"}:
        _chatter(20_000_000)
    elif fault == "one_line_of_20_mb":
        say("#" * 20_000_000)
    elif fault in {"junk", "exit_3_after_junk"}:
        os.write(2, bytes(range(256)) * 400)
    if spared == 0:
        _end_or_hang()


def _end_or_hang() -> None:
    if fault not in _ENDS:
        return
    note_begin()
    _ENDS[fault]()


def _syntax() -> None:
    compile(BROKEN_SOURCE, "/srv/sglang/srt/models/broken.py", "exec")


def _exit_3() -> None:
    say(
        "Traceback (most recent call last):\n"
        '  File "/srv/sglang/srt/models/llama_eagle3.py", line 218, in forward\n'
        "    hidden_states = self.fc(hidden_states)\n"
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x128 and 192x64)\n"
    )
    sys.exit(3)


def _out_of_memory() -> None:
    log("Scheduler hit an exception: Traceback (most recent call last):")
    say(
        '  File "/srv/sglang/srt/managers/scheduler.py", line 12, in run\n'
        "    self.forward()\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    time.sleep(600)


def _soft_watchdog() -> None:
    for _ in range(2):
        log("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)")
    time.sleep(600)


def _disk_full() -> None:
    """The log's disk has no room left: every write fails with ENOSPC from here on."""
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    os.dup2(full, 2)
    os.write(2, b"Load weight begin\n")


_ENDS = {
    "syntax": _syntax,
    "exit_0": lambda: sys.exit(0),
    "exit_3": _exit_3,
    "exit_3_after_20_mb": _exit_3,
    "exit_3_after_junk": _exit_3,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "killed_by_real_time_signal": lambda: os.kill(os.getpid(), signal.SIGRTMIN + 3),
    "hang": lambda: time.sleep(600),
    "out_of_memory": _out_of_memory,
    "soft_watchdog": _soft_watchdog,
    "disk_full": _disk_full,
}


def _chatter(size: int) -> None:
    line = "x" * 99 + "\n"
    say(line * (size // 100))


def _grandchild(environment: dict[str, str]) -> None:
    """A process of a session of its own, whose parent ends at once, on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    middle = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {LISTEN!r}, '{port}'],"
        f" env={environment!r}, start_new_session=True,"
        " stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
        "child.stdout.readline()\n"
        "print(child.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", middle], check=True, capture_output=True, text=True
    )
    note_process(int(done.stdout))
    Path("second-port").write_text(str(port))
