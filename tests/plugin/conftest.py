from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from draftgate.measure.record import Record
from draftgate.measure.record_file import read_record

from tests.conftest import ROOT, Run

PROFILE = """
[target]
path = "builtin:tiny"
[drafts.eagle3]
path = "builtin:tiny-eagle3"
[prompts]
path = "builtin:tiny"
count = 8
max_new_tokens = 32
[throughput]
prompts = 2
max_new_tokens = 24
rounds = 2
[defaults]
devices = ["cpu"]
context_length = 1024
skip_tokenizer = true
[[servers]]
[[servers]]
draft = "eagle3"
num_steps = 3
topk = 1
num_draft_tokens = 4
acceptance_floor = 2
"""
SHORT = """
[target]
path = "builtin:tiny"
[drafts.eagle3]
path = "builtin:tiny-eagle3"
[prompts]
path = "builtin:tiny"
count = 4
max_new_tokens = 64
[throughput]
prompts = 4
max_new_tokens = 32
rounds = 2
[defaults]
context_length = 1024
skip_tokenizer = true
max_running_requests = 8
"""
"""What a profile opens with whose servers are to be done soon; `devices` and servers follow."""
DRIVER = """
from types import SimpleNamespace as Facts
class NVMLError(Exception): ...
def nvmlInit(): ...
def nvmlShutdown(): ...
def nvmlSystemGetDriverVersion(): return "580.65.06"
def nvmlDeviceGetCount(): return COUNT
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetHandleByUUID(uuid): return int(uuid[4:])
def nvmlDeviceGetIndex(handle): return handle
def nvmlDeviceGetUUID(handle): return f"GPU-{handle}"
def nvmlDeviceGetName(handle): return "NVIDIA H200"
def nvmlDeviceGetMemoryInfo(handle): return Facts(total=150 << 30, used=1 << 20)
def nvmlDeviceGetEnforcedPowerLimit(handle): return 700_000
def nvmlDeviceGetComputeRunningProcesses(handle): return []
def nvmlDeviceGetClockInfo(handle, which): return 1980
def nvmlDeviceGetPowerUsage(handle): return 512_345
def nvmlDeviceGetTemperature(handle, which): return 41
def nvmlDeviceGetCurrentClocksThrottleReasons(handle): return 0
NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0
"""
"""What stands in for the pynvml module, `COUNT` GPUs."""
NONE, SPEC = "mine/none/cpu", "mine/eagle3-s3k1d4/cpu"
STEP_S = 0.01
"""Long enough that a few steps time alike on a busy machine."""


@dataclass
class StandIn:
    """The suite on stand-in servers: a plain one and one that speculates."""

    tmp_path: Path
    python: Path
    run_pytest: Callable[..., Run]

    @property
    def baselines(self) -> Path:
        return self.tmp_path / "baselines"

    def run(self, *arguments: str, **environment: str) -> Run:
        profile = self.tmp_path / "mine.toml"
        if not profile.exists():
            profile.write_text(PROFILE)
        return self.run_pytest(
            *("tests/suite", "-m", "cpu", "--dg-profiles", str(profile)),
            *("--dg-server-python", str(self.python), "--dg-baselines", str(self.baselines)),
            *arguments,
            # Leases of its own: a test need not wait for the servers of anybody else.
            **{"XDG_RUNTIME_DIR": str(self.tmp_path), "FAKE_SGLANG_STEP_S": str(STEP_S)}
            | environment,
        )

    def record_path(self) -> Path:
        """The record of the newest session."""
        return max(self.tmp_path.rglob("artifacts/*/record.json"))

    def record(self) -> Record:
        return read_record(self.record_path())

    def accept(self) -> Path:
        """Accept the newest session."""
        command = [sys.executable, "-m", "draftgate.cli", "accept", str(self.record_path())]
        options = ["--reason", "a test", "--baselines", str(self.baselines)]
        subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True)
        return max(self.baselines.rglob("*.json"))


@pytest.fixture
def stand_in(tmp_path, fake_sglang, run_pytest):
    return StandIn(tmp_path, fake_sglang, run_pytest)


@pytest.fixture
def gpus(tmp_path) -> Callable[[int], dict[str, str]]:
    """An environment with the stand-in of a driver of some GPUs, and a folder for leases."""

    def environment(count: int) -> dict[str, str]:
        (tmp_path / "driver").mkdir()
        (tmp_path / "driver" / "pynvml.py").write_text(f"COUNT = {count}\n{DRIVER}")
        return {
            "PYTHONPATH": str(tmp_path / "driver"),
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count))),
            "XDG_RUNTIME_DIR": str(tmp_path),
        }

    return environment


HOLD = """
import sys, time
from draftgate.engine.lease import lease
with lease(sys.argv[1], int(sys.argv[2]), timeout_s=30, notify=print):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def holding(
    device: str, count: int, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """Another run of this host that holds the lease of `count` GPUs, or of the CPU engine."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, device, str(count)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.kill()


def wait_for(
    holder: subprocess.Popen[str], *options: str, artifacts: Path, **environment: str
) -> str:
    """What a suite says while it waits for `holder`, which then ends; the suite is green."""
    with subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options),
            *("--dg-artifacts", str(artifacts)),
        ],
        cwd=ROOT,
        env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        waiting = next(line for line in run.stdout if line.startswith("waiting for"))
        holder.kill()
        run.communicate()
    assert run.returncode == 0
    return waiting
