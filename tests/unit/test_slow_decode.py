"""The planted slowdown: every decode step is longer by the share asked for, a prefill is not."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest

from tests.gate.slow_decode import SITE


@pytest.fixture
def clock(monkeypatch):
    """The plug-in's module on a clock that only what runs moves."""
    spec = importlib.util.spec_from_file_location("slow_decode", SITE / "slow_decode.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    clock = SimpleNamespace(now=0.0, module=module)

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr(
        module, "time", SimpleNamespace(perf_counter=lambda: clock.now, sleep=sleep)
    )
    return clock


def test_a_decode_step_is_longer_by_the_share(clock):
    class Scheduler:
        def run_batch(self, batch):
            clock.now += batch.seconds
            return batch

    def batch(seconds, decode=True):
        mode = SimpleNamespace(is_decode=lambda: decode)
        on_cpu = SimpleNamespace(is_cuda=False)
        return SimpleNamespace(seconds=seconds, forward_mode=mode, seq_lens=on_cpu)

    clock.module._slow_down(Scheduler, 0.10)
    scheduler = Scheduler()
    took = []
    clock.now += 50  # idle, before a request comes
    for step in (batch(8, decode=False), batch(2), batch(4)):
        begin = clock.now
        assert scheduler.run_batch(step) is step
        took.append(clock.now - begin)
        clock.now += 1  # the scheduler's own work between two batches belongs to the step
    assert took == pytest.approx([8, 2 + 0.1 * 3, 4 + 0.1 * 5])
