"""A stand-in for the pynvml module: the driver is the one part that is not on every host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from draftgate.engine.gpus import MIB


class NVMLError(Exception):
    pass


class FakeNvml:
    """Two GPUs; `processes` and `used` per uuid are what tests change."""

    NVMLError = NVMLError

    def __init__(self) -> None:
        self.uuids = ["GPU-aa", "GPU-bb"]
        self.processes: dict[str, list[tuple[int, int | None]]] = {"GPU-aa": [], "GPU-bb": []}
        self.used = {"GPU-aa": 500, "GPU-bb": 700}
        self.power_limits_mw = {"GPU-aa": 700_000, "GPU-bb": 699_999}
        self.opened = 0

    def nvmlInit(self) -> None:
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.65.06"

    def nvmlDeviceGetCount(self) -> int:
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index >= len(self.uuids):
            raise NVMLError("invalid argument")
        return self.uuids[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.uuids:
            raise NVMLError("not found")
        return uuid

    def nvmlDeviceGetIndex(self, handle: str) -> int:
        return self.uuids.index(handle)

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return handle

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def nvmlDeviceGetClockInfo(self, handle: str, which: int) -> int:
        return 1980

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 512_345

    def nvmlDeviceGetTemperature(self, handle: str, which: int) -> int:
        if handle == "GPU-bb":
            raise NVMLError("not supported")
        return 41

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:
        return 0x05

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=143771 * MIB, used=self.used[handle] * MIB)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        if handle not in self.power_limits_mw:
            raise NVMLError("not supported")
        return self.power_limits_mw[handle]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=None if mib is None else mib * MIB)
            for pid, mib in self.processes[handle]
        ]
