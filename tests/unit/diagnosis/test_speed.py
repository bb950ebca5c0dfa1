"""Speed = acceptance length x verify steps per second, and the length at which speculation pays."""

from __future__ import annotations

import pytest

from fixtures.diagnosis.speed import Factors, break_even, factors, movement
from fixtures.measure.samples import Round, ThroughputSample


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
