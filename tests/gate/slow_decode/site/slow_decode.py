"""SGLang plug-in: every decode step takes SLOW_DECODE_PERCENT percent longer.

Wraps `Scheduler.run_batch` (sglang 0.5.23 srt/managers/scheduler.py) and sleeps after each decode
batch for that share of the time since the batch before it, which holds the whole step: draft,
verify, and the scheduler's own work. The prefill is left as it is.
"""

from __future__ import annotations

import os
import time
from typing import Any


def activate() -> None:
    """Entry point, called by SGLang early in every server process."""
    share = float(os.environ.get("SLOW_DECODE_PERCENT", "0")) / 100
    if share:
        from sglang.srt.managers.scheduler import Scheduler

        _slow_down(Scheduler, share)


def _slow_down(scheduler: Any, share: float) -> None:
    run_batch = scheduler.run_batch
    ended = time.perf_counter()

    def slowed(self: Any, batch: Any, *args: Any, **named: Any) -> Any:
        nonlocal ended
        is_decode = batch.forward_mode.is_decode()
        result = run_batch(self, batch, *args, **named)
        if is_decode:
            time.sleep(share * (time.perf_counter() - ended))
        ended = time.perf_counter()
        return result

    scheduler.run_batch = slowed
