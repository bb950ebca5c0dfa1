from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from draftgate.engine.gpus import Gpu
from draftgate.engine.lease import lease
from draftgate.errors import DeviceError

GPUS = tuple(Gpu(index, f"GPU-{index}", "H200", 1, str(index)) for index in range(3))
HOLD = """
import sys, time
sys.path[:0] = [{root!r}]
from pathlib import Path
from draftgate.engine.gpus import Gpu
from draftgate.engine.lease import lease
gpus = [Gpu(i, f"GPU-{{i}}", "H200", 1, str(i)) for i in {indices}]
with lease({device!r}, {count}, timeout_s=5, notify=print, directory=Path({folder!r}), gpus=gpus):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def holder(
    folder: Path, device: str, indices: tuple[int, ...], count: int | None = None
) -> Iterator[int]:
    """Another process that holds a lease of `count` of these GPUs (all of them); its pid."""
    script = textwrap.dedent(HOLD).format(
        root=str(Path(__file__).parents[3] / "fixtures"),
        folder=str(folder),
        device=device,
        indices=indices,
        count=len(indices) if count is None else count,
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other.pid
        finally:
            other.kill()


def take(folder: Path, count: int, told: list[str], timeout_s: float = 0.3) -> list[int]:
    with lease(
        "gpu", count, timeout_s=timeout_s, notify=told.append, directory=folder, gpus=GPUS
    ) as held:
        return [gpu.index for gpu in held]


def test_the_first_gpus_that_are_free_are_leased_and_given_back(tmp_path: Path) -> None:
    told: list[str] = []
    assert take(tmp_path, 2, told) == [0, 1]
    assert take(tmp_path, 3, told) == [0, 1, 2]
    assert told == []
    assert not list(tmp_path.glob("*.json"))


def test_another_process_keeps_its_gpu(tmp_path: Path) -> None:
    told: list[str] = []
    with holder(tmp_path, "gpu", (0,)) as pid:
        assert take(tmp_path, 2, told) == [1, 2]
        started = time.monotonic()
        with pytest.raises(DeviceError) as caught:
            take(tmp_path, 3, told)
        assert time.monotonic() - started < 5.0
    assert f"GPU-0 is held by pid {pid}" in str(caught.value)
    assert len(told) == 1
    assert told[0].startswith("waiting for 3 of 3 device(s): GPU-0 is held by pid")


def test_two_suites_have_gpus_of_their_own_and_a_third_waits_for_both(tmp_path: Path) -> None:
    told: list[str] = []
    gpus = GPUS[:2]
    with (
        holder(tmp_path, "gpu", (0, 1), count=1) as first,
        holder(tmp_path, "gpu", (0, 1), count=1) as second,
    ):
        notes = [json.loads((tmp_path / f"GPU-{n}.json").read_text())["pid"] for n in (0, 1)]
        assert notes == [first, second]
        end = subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {second}"])
        with lease(
            "gpu", 1, timeout_s=10, notify=told.append, directory=tmp_path, gpus=gpus
        ) as held:
            assert [gpu.index for gpu in held] == [1]
        assert end.wait() == 0
        with (
            pytest.raises(DeviceError, match=rf"2 of GPU-0, GPU-1 .* held by pid {first} "),
            lease("gpu", 2, timeout_s=0.1, notify=told.append, directory=tmp_path, gpus=gpus),
        ):
            pass
    one, taken_over, both = told
    assert re.match(rf"waiting for 1 of 2 .*-0 is held by pid {first} .*-1 is .* {second} ", one)
    assert taken_over.startswith(f"GPU-1: pid {second} ")
    assert re.fullmatch(rf"waiting for 2 of 2 .*-0 is held by pid {first} .*; GPU-1 is free", both)


def test_a_lease_within_the_same_process_excludes_too(tmp_path: Path) -> None:
    with (
        lease("cpu", 0, timeout_s=1, notify=print, directory=tmp_path),
        pytest.raises(DeviceError, match=f"cpu-engine is held by pid {os.getpid()} "),
        lease("cpu", 0, timeout_s=0.1, notify=lambda _: None, directory=tmp_path),
    ):
        pass


def test_the_lease_of_a_dead_run_is_taken_over_with_a_notice(tmp_path: Path) -> None:
    told: list[str] = []
    with holder(tmp_path, "gpu", (0,)) as pid:
        os.kill(pid, signal.SIGKILL)
        assert take(tmp_path, 3, told, timeout_s=5.0) == [0, 1, 2]
    [notice] = [line for line in told if "taken over" in line]
    assert notice.startswith(f"GPU-0: pid {pid} ")


def test_waiting_ends_when_the_holder_ends(tmp_path: Path) -> None:
    told: list[str] = []
    with holder(tmp_path, "cpu", ()) as pid:
        note = json.loads((tmp_path / "cpu-engine.json").read_text())
        assert note["pid"] == pid
        subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {pid}"]).wait()
        with lease("cpu", 0, timeout_s=10, notify=told.append, directory=tmp_path) as held:
            assert held == ()


def test_absent_gpus_are_an_error_with_the_remedy(tmp_path: Path) -> None:
    with (
        pytest.raises(DeviceError, match=r"4 GPU\(s\) are needed and 3 can be seen .* -m cpu"),
        lease("gpu", 4, timeout_s=1, notify=print, directory=tmp_path, gpus=GPUS),
    ):
        pass
