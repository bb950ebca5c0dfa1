"""GPU facts against a stand-in for the pynvml module: the driver is the one part not here."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from draftgate.engine.gpus import (
    Gpu,
    Reading,
    driver_version,
    holders,
    power_limits_w,
    readings,
    require_idle,
    still_held,
    used_mib,
    visible_gpus,
)
from draftgate.errors import DeviceError

from tests.reliability.fake_nvml import FakeNvml, NVMLError

A = Gpu(0, "GPU-aa", "NVIDIA H200", 143771, "0")
ABSENT = 2**22 + 1
"""Above the largest pid that Linux gives: nobody here, as a pid of another namespace is."""
B = Gpu(1, "GPU-bb", "NVIDIA H200", 143771, "1")


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, [A, B]),
        ("1,0", [B, A]),
        ("1", [B]),
        ("", []),
        ("0,7,1", [A]),
        ("GPU-bb", [Gpu(1, "GPU-bb", "NVIDIA H200", 143771, "GPU-bb")]),
    ],
)
def test_visible_gpus_follow_the_callers_choice(
    nvml: FakeNvml, chosen: str | None, expected: list[Gpu]
) -> None:
    environment = {} if chosen is None else {"CUDA_VISIBLE_DEVICES": chosen}
    assert list(visible_gpus(environment)) == expected
    assert nvml.opened == 0


def test_without_a_driver_there_are_no_gpus(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise NVMLError("driver not loaded")

    monkeypatch.setattr(nvml, "nvmlInit", refuse)
    assert visible_gpus({}) == ()
    assert driver_version() is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert visible_gpus({}) == ()


def test_power_limits(nvml: FakeNvml) -> None:
    gpus = visible_gpus({})
    assert power_limits_w(gpus) == (700, 700)
    del nvml.power_limits_mw["GPU-bb"]
    assert power_limits_w(gpus) == ()  # a card that does not tell
    assert nvml.opened == 0


def test_a_reading_of_each_card(nvml: FakeNvml) -> None:
    nvml.processes["GPU-aa"] = [(ABSENT, 13630)]
    assert readings([A]) == [Reading(1980, 512.345, 41, 0x05, (ABSENT,))]
    assert readings([A, B]) == []  # a card that does not tell
    assert nvml.opened == 0


def test_who_holds_memory(nvml: FakeNvml) -> None:
    nvml.processes["GPU-aa"] = [(ABSENT, 13630), (ABSENT + 1, None)]
    nvml.processes["GPU-bb"] = [(ABSENT + 2, 5)]
    assert [str(holder) for holder in holders([A, B])] == [
        f"pid {ABSENT} holds 13630 MiB of GPU 0",
        f"pid {ABSENT + 1} holds memory of GPU 0",
        f"pid {ABSENT + 2} holds 5 MiB of GPU 1",
    ]
    assert used_mib([A, B]) == (500, 700)
    assert driver_version() == "580.65.06"


def test_memory_that_stays_is_told_with_pid_and_amount(nvml: FakeNvml) -> None:
    nvml.processes["GPU-aa"] = [(ABSENT, 13630)]
    nvml.used["GPU-aa"] = 14130
    told = still_held([A], {ABSENT}, (500,), timeout_s=0.2)
    assert told == (
        "13630 MiB more of GPU 0 in use than before the launch "
        f"(pid {ABSENT} holds 13630 MiB of GPU 0)"
    )


def test_memory_of_a_foreign_namespace_is_judged_by_the_amount(nvml: FakeNvml) -> None:
    nvml.processes["GPU-aa"] = [(ABSENT, 13630)]
    nvml.used["GPU-aa"] = 14130
    told = still_held([A], {10}, (500,), timeout_s=0.2)
    assert told == (
        "13630 MiB more of GPU 0 in use than before the launch (no process is named by NVML)"
    )
    nvml.used["GPU-aa"] = 600
    assert still_held([A], {10}, (500,), timeout_s=0.2) is None


def test_each_gpu_of_a_server_must_be_free(nvml: FakeNvml) -> None:
    """One that gave back more than it had does not make up for the other; nor does a stranger."""
    nvml.used = {"GPU-aa": 100, "GPU-bb": 1100}
    assert still_held([A, B], {10}, (500, 700), timeout_s=0.2) == (
        "400 MiB more of GPU 1 in use than before the launch (no process is named by NVML)"
    )
    nvml.processes["GPU-aa"] = [(os.getpid(), 9000)]
    told = still_held([A, B], {10}, (500, 700), timeout_s=0.2)
    assert told is not None
    assert told.startswith("400 MiB more of GPU 1 in use")
    nvml.used = {"GPU-aa": 2000, "GPU-bb": 3000}
    nvml.processes = {"GPU-aa": [(ABSENT, 1500)], "GPU-bb": [(ABSENT + 1, 2300)]}
    assert still_held([A, B], {ABSENT, ABSENT + 1}, (500, 700), timeout_s=0.2) == (
        f"1500 MiB more of GPU 0 in use than before the launch (pid {ABSENT} holds 1500 MiB of "
        f"GPU 0); 2300 MiB more of GPU 1 in use than before the launch (pid {ABSENT + 1} holds "
        "2300 MiB of GPU 1)"
    )
    nvml.used, nvml.processes = {"GPU-aa": 510, "GPU-bb": 690}, {"GPU-aa": [], "GPU-bb": []}
    assert still_held([A, B], {10}, (500, 700), timeout_s=0.0) is None


def test_memory_of_somebody_else_does_not_keep_us_waiting(nvml: FakeNvml) -> None:
    nvml.processes["GPU-aa"] = [(1, 9000)]
    nvml.used["GPU-aa"] = 9500
    assert still_held([A], {10}, (500,), timeout_s=0.2) is None


def test_an_idle_gpu_may_be_used_whatever_others_do(nvml: FakeNvml) -> None:
    nvml.processes["GPU-bb"] = [(ABSENT, 9000)]
    require_idle([A], timeout_s=0.0)
    require_idle([], timeout_s=0.0)


def test_a_foreign_process_is_named_with_the_remedy(nvml: FakeNvml) -> None:
    nvml.processes["GPU-aa"] = [(os.getpid(), 9000)]
    name = Path("/proc/self/comm").read_text().strip()
    with pytest.raises(DeviceError) as caught:
        require_idle([A, B], timeout_s=0.0)
    assert f"pid {os.getpid()} ({name}) holds 9000 MiB of GPU 0" in str(caught.value)
    assert "end that process, or choose other GPUs with CUDA_VISIBLE_DEVICES" in str(caught.value)


def test_memory_that_nobody_is_named_for_is_somebodys_too(nvml: FakeNvml) -> None:
    nvml.used["GPU-bb"] = 30000
    with pytest.raises(DeviceError, match="30000 MiB of GPU 1 are in use, by a process that NVML"):
        require_idle([A, B], timeout_s=0.0)


def test_a_server_that_was_just_killed_may_give_its_memory_back(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.processes["GPU-aa"] = [(ABSENT, 9000)]
    monkeypatch.setattr(time, "sleep", lambda _: nvml.processes["GPU-aa"].clear())
    require_idle([A], timeout_s=60.0)
