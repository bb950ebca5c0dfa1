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


@pytest.fixture
def scheduler(clock):
    """A class of schedulers whose batches take the seconds that they say."""

    class Scheduler:
        def run_batch(self, batch):
            clock.now += batch.seconds
            return batch

    return Scheduler


def batch(seconds, decode=True):
    mode = SimpleNamespace(is_decode=lambda: decode)
    on_cpu = SimpleNamespace(is_cuda=False)
    return SimpleNamespace(seconds=seconds, forward_mode=mode, seq_lens=on_cpu)


def test_a_decode_step_is_longer_by_the_share(clock, scheduler):
    clock.module._slow_down(scheduler, 0.10)
    scheduler = scheduler()
    took = []
    clock.now += 50  # idle, before a request comes
    for step in (batch(8, decode=False), batch(2), batch(4)):
        begin = clock.now
        assert scheduler.run_batch(step) is step
        took.append(clock.now - begin)
        clock.now += 1  # the scheduler's own work between two batches belongs to the step
    assert took == pytest.approx([8, 2 + 0.1 * 3, 4 + 0.1 * 5])


def test_a_pace_hides_what_a_step_takes(clock, scheduler):
    clock.module._slow_down(scheduler, 0.10, pace_s=10)
    scheduler = scheduler()
    scheduler.run_batch(batch(8, decode=False))
    ends = []
    for step in (batch(2), batch(9), batch(10), batch(20)):
        scheduler.run_batch(step)
        ends.append(clock.now)
        clock.now += 0.5
    assert ends == pytest.approx([8 + 11, 19 + 11, 30 + 1.1 * 10.5, 41.55 + 1.1 * 20.5])
