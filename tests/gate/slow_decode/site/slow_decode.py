"""SGLang plug-in: every decode step takes SLOW_DECODE_PERCENT percent longer.

On the CPU engine SLOW_DECODE_PACE_MS first makes it take that long at least, so that what the
machine does meanwhile does not show.

Wraps `Scheduler.run_batch` (sglang 0.5.16 to 0.5.23 srt/managers/scheduler.py) and waits in each
decode batch for that share of the time since the batch before it, which holds the whole step:
draft, verify, and the scheduler's own work. The prefill is left as it is. On the CPU engine the
scheduler sleeps; on a GPU the device waits behind the target's pass, since it is still busy when
the scheduler is done and would hide a sleep.
"""

from __future__ import annotations

import os
import time
from typing import Any

CALIBRATION_CYCLES = 10_000_000


def activate() -> None:
    """Entry point, called by SGLang early in every server process."""
    share = float(os.environ.get("SLOW_DECODE_PERCENT", "0")) / 100
    pace_s = float(os.environ.get("SLOW_DECODE_PACE_MS", "0")) / 1000
    if share or pace_s:
        from sglang.srt.managers.scheduler import Scheduler

        _slow_down(Scheduler, share, pace_s)


def _slow_down(scheduler: Any, share: float, pace_s: float = 0.0) -> None:
    run_batch = scheduler.run_batch
    ended = time.perf_counter()
    on_device: DeviceWait | None = None

    def slowed(self: Any, batch: Any, *args: Any, **named: Any) -> Any:
        nonlocal ended, on_device
        is_decode = batch.forward_mode.is_decode()
        if batch.seq_lens.is_cuda:
            on_device = on_device or DeviceWait(self.model_worker)
            step_s = time.perf_counter() - ended - on_device.pause_s
            on_device.pause_s = share * step_s if is_decode else 0.0
            ended = time.perf_counter()
            return run_batch(self, batch, *args, **named)
        result = run_batch(self, batch, *args, **named)
        if is_decode:
            took_s = time.perf_counter() - ended
            time.sleep(max(took_s, pace_s) * (1 + share) - took_s)
        ended = time.perf_counter()
        return result

    scheduler.run_batch = slowed


class DeviceWait:
    """Lets the device wait for `pause_s` behind each verify pass, or each pass without a draft."""

    def __init__(self, worker: Any) -> None:
        import torch

        self.pause_s = 0.0
        name = "verify" if hasattr(worker, "verify") else "forward_batch_generation"
        original = getattr(worker, name)
        cycles_s = _cycles_per_second(torch)

        def waiting(*args: Any, **named: Any) -> Any:
            result = original(*args, **named)
            if self.pause_s > 0:
                torch.cuda._sleep(int(self.pause_s * cycles_s))
            return result

        setattr(worker, name, waiting)


def _cycles_per_second(torch: Any) -> float:
    """Of the device's clock, once it is up to speed."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(10 * CALIBRATION_CYCLES)
    begin.record()
    torch.cuda._sleep(CALIBRATION_CYCLES)
    end.record()
    end.synchronize()
    return 1000 * CALIBRATION_CYCLES / float(begin.elapsed_time(end))
