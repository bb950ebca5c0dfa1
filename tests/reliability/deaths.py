"""Ways in which a pytest run dies or fails while its server is up, and what is left then.

`die` runs pytest on one server and ends it in the given way; `run_again` runs pytest once more in
the same place. The stand-in and the real server are served alike.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from draftgate.engine.ports import is_free
from draftgate.engine.process import marked_processes

ROOT = Path(__file__).parents[2]
UP_LIMIT_S = 240.0
GONE_LIMIT_S = 5.0
"""From the end of pytest, or from the signal, until nothing of the server is left: what
docs/reliability.md must show."""
BUSY_LIMIT_S = 30.0
"""The same where tests run beside others on a busy machine: pytest itself takes its time to end."""
BETWEEN_S = 0.2
"""Between two signals: the second meets the teardown that the first began."""

TESTS = """
import time
from pathlib import Path
import pytest

def note(dg_server):
    port = dg_server.handle.info["port"]
    Path({up!r}).write_text(f"{{dg_server.handle.plan.served_model_name}} {{port}}")

@pytest.fixture
def broken(dg_server):
    note(dg_server)
    raise RuntimeError("planted")

def test_fails(dg_server):
    note(dg_server)
    assert not "planted"

def test_waits(dg_server):
    note(dg_server)
    time.sleep(600)

def test_has_a_broken_fixture(broken):
    pass

def test_is_well(dg_server):
    dg_server.handle.check_alive()
"""


@dataclass(frozen=True)
class Death:
    """One way to end, as docs/reliability.md names it."""

    name: str
    tests: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    signals: tuple[signal.Signals, ...] = ()
    """Sent to pytest once the server is up."""
    is_sudden: bool = False
    """Whether pytest has no time to clean up: the next run finds its lease and says so."""


DEATHS = (
    Death("SIGKILL", ("test_waits",), (), (signal.SIGKILL,), is_sudden=True),
    Death("SIGTERM", ("test_waits",), (), (signal.SIGTERM,), is_sudden=True),
    Death("Ctrl-C", ("test_waits",), (), (signal.SIGINT,)),
    Death("Ctrl-C twice", ("test_waits",), (), (signal.SIGINT, signal.SIGINT)),
    Death("exception in a fixture", ("test_has_a_broken_fixture",)),
    Death("-x", ("test_fails", "test_waits"), ("-x",)),
    Death("--timeout, by signal", ("test_waits",), ("--timeout=2", "--timeout-method=signal")),
    Death(
        "--timeout, by thread",
        ("test_waits",),
        ("--timeout=2", "--timeout-method=thread"),
        is_sudden=True,
    ),
)


@dataclass(frozen=True)
class Remains:
    """What a death left."""

    gone_s: float
    """From the signal, or from pytest's own end, until no process and no port was left."""
    processes: list[int]
    ports: list[int]
    notes: list[str]
    """Leases that were not given back."""
    output: str


def die(death: Death, folder: Path, server: Sequence[str]) -> Remains:
    """Run pytest with the options `server` in `folder`, end it, and look."""
    folder.mkdir(exist_ok=True)
    (folder / "run").mkdir()
    run = _Run(folder, server)
    with run.start(death.tests, death.arguments) as pytest_run:
        if death.signals:
            run.wait_until_up(pytest_run)
        for number in death.signals[:-1]:
            pytest_run.send_signal(number)
            time.sleep(BETWEEN_S)
        for number in death.signals[-1:]:
            pytest_run.send_signal(number)
        began = time.monotonic()
        if not death.signals:
            pytest_run.wait(UP_LIMIT_S)
            began = time.monotonic()
        mark, port = run.wait_until_up(pytest_run)
        while (left := marked_processes(mark)) or not is_free(port):
            if time.monotonic() - began >= BUSY_LIMIT_S:
                break
            time.sleep(0.02)
        gone_s = time.monotonic() - began
        pytest_run.wait(UP_LIMIT_S)
    return Remains(
        gone_s,
        left,
        [] if is_free(port) else [port],
        [note.name for note in (folder / "run").rglob("*.json")],
        run.output.read_text(),
    )


def run_again(folder: Path, server: Sequence[str]) -> tuple[int, str]:
    """Exit code and output of a run where an earlier one died."""
    run = _Run(folder, server)
    code = run.start(("test_is_well",), ()).wait(UP_LIMIT_S)
    return code, run.output.read_text()


class _Run:
    """pytest in a folder of its own: test file, artifacts, locks, output."""

    def __init__(self, folder: Path, server: Sequence[str]) -> None:
        self.up, self.output = folder / "up", folder / "output"
        self.file = folder / "test_death.py"
        self.file.write_text(TESTS.format(up=str(self.up)))
        self.options = (
            *("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "draftgate.plugin"),
            *("-p", "no:cacheprovider", "--dg-artifacts", str(folder / "artifacts"), "-m", "cpu"),
            *server,
        )
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
        self.environment = {
            **inherited,
            "CUDA_VISIBLE_DEVICES": "",
            "XDG_RUNTIME_DIR": str(folder / "run"),
        }

    def start(self, tests: Sequence[str], arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        names = [f"{self.file}::{name}" for name in tests]
        with self.output.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "pytest", *self.options, *arguments, *names],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_until_up(self, process: subprocess.Popen[bytes]) -> tuple[str, int]:
        """Launch mark and port of the server, once a test says that it is up."""
        deadline = time.monotonic() + UP_LIMIT_S
        while not self.up.exists() or not self.up.read_text():
            assert process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        mark, port = self.up.read_text().split()
        return mark, int(port)
