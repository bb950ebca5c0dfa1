"""Speed = acceptance length x verify steps per second, and the length at which speculation pays."""

from __future__ import annotations

import pytest
from draftgate.diagnosis.speed import (
    Factors,
    break_even,
    factors,
    most_grown,
    movement,
    parts,
    spelled,
)
from draftgate.measure.samples import Round, StepTimes, ThroughputSample


def test_break_even_of_the_field():
    """90 tok/s without speculation, 56.7 with it at acceptance length 2.1; later 82.3."""
    assert break_even(Factors(56.7, 2.1), 90.0) == pytest.approx(3.33, abs=0.005)
    assert break_even(Factors(82.3, 2.1), 90.0) == pytest.approx(2.30, abs=0.005)


def test_break_even_is_the_length_itself_when_nothing_is_won():
    assert break_even(Factors(90.0, 2.1), 90.0) == pytest.approx(2.1)


def sample(*rounds):
    return ThroughputSample((), tuple(Round(*r, None) for r in rounds), True, 1, 64, 8, "")


def test_factors_of_a_sample():
    found = factors(sample((2.0, 300, 100), (2.0, 300, 100)))
    assert found == Factors(150.0, 3.0)
    assert found.steps_s == 50.0
    assert factors(sample((2.0, 300, None))) == Factors(150.0, 1.0)


@pytest.mark.parametrize(
    ("now", "by_acceptance", "words"),
    [
        (
            Factors(113.59, 2.96),
            False,
            "tok/s -12.1% = acceptance length +0.0% x verify steps/s -12.1%",
        ),
        (
            Factors(129.26 / 2, 1.48),
            True,
            "tok/s -50.0% = acceptance length -50.0% x verify steps/s +0.0%",
        ),
    ],
)
def test_which_factor_moved(now, by_acceptance, words):
    """129.26 to 113.59 tok/s at an unchanged 2.960: sglang pull request 15307."""
    moved = movement(now, Factors(129.26, 2.96))
    assert moved.by_acceptance is by_acceptance
    assert str(moved) == words


def boot(step_ms, **phases_ms):
    return StepTimes(9, "cuda", {k: (0, v, 9) for k, v in phases_ms.items()}, (0, step_ms, 9))


def test_parts_of_a_step_are_means_over_boots_and_the_host_has_the_rest():
    step = parts([boot(6.0, draft=1.0, verify=4.0), None, boot(8.0, draft=2.0, verify=4.0)])
    assert step == {"draft": 1.5, "verify": 4.0, "host": 1.5}
    assert spelled(step) == "7.00 ms = draft 1.50 + verify 4.00 + host 1.50"
    assert parts([None, StepTimes(reason="no timer")]) == {}


def test_the_part_that_grew_most():
    was = {"draft": 1.0, "verify": 4.0, "host": 0.5}
    assert most_grown({"draft": 1.2, "verify": 4.9, "host": 0.5}, was) == "verify"
    assert most_grown({"draft": 1.0, "verify": 3.0, "host": 0.7}, was) == "host"
    assert most_grown(was, was) is None
    assert most_grown({"decode": 9.0, "host": 0.7}, was) is None
    assert most_grown({}, {}) is None
