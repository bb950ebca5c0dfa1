"""The goals of the gate as bounds, on drawn nights; `tox -e bench` prints the whole table."""

from __future__ import annotations

import numpy as np
import pytest
from draftgate.gate.throughput import judge_speed
from draftgate.measure.verdict import Status

from tests.gate.simulation import BOOTS, CHANGES, NOISES, RULES, alarms, draw, rates

SPEC = "tiny/eagle3-s3k1d4/cpu"
SCREEN, CONFIRMED_BY_FEWER, CONFIRMED, MEAN_5, MEAN_10, T_TEST, RANKS = RULES
QUIET, TYPICAL, NOISY = NOISES
NOTHING, THREE, FIVE, EIGHT, FIVE_OF_ALL = CHANGES


@pytest.fixture(scope="module")
def null():
    return rates(TYPICAL, NOTHING, draws=20_000)


def test_false_alarms(null):
    assert null[SCREEN] <= 0.01
    assert null[CONFIRMED] <= 2e-4


def test_power():
    five = rates(TYPICAL, FIVE, draws=5_000)
    assert min(five[SCREEN], five[CONFIRMED]) >= 0.98
    three = rates(TYPICAL, THREE, draws=5_000)
    assert min(three[SCREEN], three[CONFIRMED]) >= 0.90
    assert 0.85 <= three[CONFIRMED_BY_FEWER] < 0.90
    assert rates(TYPICAL, FIVE_OF_ALL, draws=5_000)[SCREEN] >= 0.98


def test_the_usual_rules_are_wrong_one_way_or_the_other(null):
    assert null[T_TEST] > 0.2
    assert null[RANKS] > 0.2
    five = rates(TYPICAL, FIVE, draws=5_000)
    assert five[MEAN_5] < 0.7
    assert five[MEAN_10] < 0.02
    assert rates(NOISY, NOTHING, draws=5_000)[MEAN_5] > 0.05


@pytest.mark.parametrize("change", [NOTHING, THREE, FIVE_OF_ALL], ids=lambda change: change.name)
def test_the_simulation_decides_as_the_judge_does(make_record, change):
    """The same drawn nights as whole records: the judge says what the arrays say."""
    nights = draw(np.random.default_rng(7), TYPICAL, change, draws=20)
    expected = alarms(nights)[SCREEN]
    # Changed software: a slower machine would be red as well, and called otherwise.
    for spec, none, red in zip(nights.speculative, nights.reference, expected, strict=True):
        sessions = [
            make_record(
                f"s{number:03}",
                spec=[tuple(200 * np.exp(boot)) for boot in boots],
                none=[tuple(100 * np.exp(boot)) for boot in others],
                software={"sglang": f"0.5.{number}"},
            )
            for number, (boots, others) in enumerate(zip(spec, none, strict=True))
        ]
        assert len(sessions[0].servers[SPEC].boots) == BOOTS
        verdicts = judge_speed(sessions[-1], SPEC, sessions[:-1])
        assert any(verdict.status is Status.REGRESSION for verdict in verdicts) == red
