"""What the GPUs did during rounds, against a stand-in for pynvml."""

from __future__ import annotations

import time

import pytest
from draftgate.engine.gpus import Gpu, Reading
from draftgate.measure import telemetry
from draftgate.measure.telemetry import summarize, watched

GPU = Gpu(0, "GPU-aa", "NVIDIA H200", 143771, "0")
SERVER, STRANGER = 4711, 4712


def reading(clock=1980, power=500.0, temperature=50, reasons=0x01, pids=(SERVER,)):
    return Reading(clock, power, temperature, reasons, pids)


def test_a_quiet_card_is_fit():
    seen = [reading(clock=1965, power=400.4), reading(), reading(temperature=61, power=612.6)]
    told = summarize(seen, {SERVER})
    assert told is not None
    assert (told.readings, told.sm_clock_mhz) == (3, (1965, 1980, 1980))
    assert (told.power_w, told.temperature_c) == ((500, 613), 61)
    assert (told.reasons, told.strangers, told.unfit) == ((), (), ())


@pytest.mark.parametrize(
    ("reasons", "name"),
    [
        (0x08, "hardware slowdown"),
        (0x20, "software thermal slowdown"),
        (0x41, "hardware thermal slowdown"),
        (0x80, "power brake"),
    ],
)
def test_a_slowed_card_is_unfit(reasons, name):
    told = summarize([reading(), reading(reasons=reasons)], {SERVER})
    assert told.unfit == (f"the GPU was slowed meanwhile: {name}",)


@pytest.mark.parametrize(("reasons", "name"), [(0x04, "power cap"), (0x02, "application clocks")])
def test_a_limit_of_every_run_is_shown_and_fit(reasons, name):
    told = summarize([reading(reasons=reasons)], {SERVER})
    assert (told.reasons, told.unfit) == ((name,), ())


def test_a_stranger_on_the_card_makes_the_round_unfit():
    told = summarize([reading(), reading(pids=(SERVER, STRANGER))], {SERVER})
    assert told.unfit == ("somebody else computed on the GPU meanwhile: pid 4712",)


def test_pids_of_another_namespace_accuse_nobody():
    assert summarize([reading(pids=(900001,))], {SERVER}).strangers == ()


def test_no_reading_is_no_telemetry():
    assert summarize([], {SERVER}) is None


def test_reading_goes_on_for_the_whole_block(monkeypatch):
    monkeypatch.setattr(telemetry, "readings", lambda gpus: [reading() for _ in gpus])
    monkeypatch.setattr(telemetry, "EVERY_S", 0.01)
    own = {SERVER}
    with watched([GPU], lambda: own) as watch:
        while len(watch.seen) < 5:
            time.sleep(0.01)
        assert watch.telemetry is None
    assert watch.telemetry.readings >= 5
    count = len(watch.seen)
    time.sleep(0.05)
    assert len(watch.seen) == count


def test_an_error_in_the_block_ends_the_reading(monkeypatch):
    monkeypatch.setattr(telemetry, "readings", lambda gpus: [reading() for _ in gpus])
    with pytest.raises(RuntimeError), watched([GPU], set) as watch:
        raise RuntimeError
    assert watch.telemetry is not None


def test_without_gpus_there_is_nothing_to_read():
    with watched([], set) as watch:
        pass
    assert watch.telemetry is None
