from __future__ import annotations

import math

import numpy as np
import pytest
from draftgate.gate.screen import ALPHA, MIN_DROP, POWER, band, detectable_drop, interval, is_below
from hypothesis import given
from hypothesis import strategies as st

sessions = st.lists(st.floats(-0.1, 0.1), min_size=5, max_size=30)


def test_the_limit_is_the_t_prediction_limit():
    limits = band([0.0, 0.02, -0.02, 0.01, -0.01])
    assert float(limits.mean) == pytest.approx(0)
    assert float(limits.spread) == pytest.approx(0.0158114)
    # t(0.99, 4) = 3.746947 by any table
    assert float(limits.margin) == pytest.approx(3.746947 * 0.0158114 * math.sqrt(1.2), rel=1e-6)


def test_equal_sessions_do_not_make_a_limit_of_nothing():
    limits = band([0.0] * 12)
    assert float(limits.spread) == 0.003
    assert float(limits.margin) == pytest.approx(-math.log(1 - MIN_DROP))


def test_whole_arrays_are_judged_as_each_of_their_rows():
    rng = np.random.default_rng(1)
    many, now = rng.normal(0, 0.02, (50, 12)), rng.normal(-0.04, 0.02, 50)
    rows = [bool(is_below(n, row)) for n, row in zip(now, many, strict=True)]
    assert list(is_below(now, many)) == rows
    assert 0 < sum(rows) < 50


@given(sessions)
def test_a_session_like_the_mean_is_not_below(values):
    assert not is_below(float(np.mean(values)), values)


@given(sessions, st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_larger_drop_is_never_judged_milder(values, drop, more):
    mean = float(np.mean(values))
    if is_below(mean - drop, values):
        assert is_below(mean - drop - more, values)


@given(sessions, st.floats(0.05, 0.2), st.randoms())
def test_the_order_of_sessions_is_irrelevant(values, drop, random):
    shuffled = values[:]
    random.shuffle(shuffled)
    now = -drop
    # Sums differ in the last bit; a value on the limit itself is excluded by the margin.
    limits = band(values)
    if abs(now - float(limits.mean - limits.margin)) > 1e-9:
        assert is_below(now, values) == is_below(now, shuffled)


@given(sessions)
def test_what_is_no_number_is_below(values):
    assert is_below(math.nan, values)
    assert is_below(-math.inf, values)


def test_the_interval_holds_the_change():
    low, high = interval(math.log(0.9), [math.log(v) for v in (1.0, 1.01, 0.99, 1.0, 1.0)])
    assert low < -0.1 < high
    assert high - low == pytest.approx(0.039, abs=0.002)


def test_false_alarms_and_the_detectable_drop_are_as_promised():
    rng = np.random.default_rng(2)
    many, now = rng.normal(0, 0.01, (40_000, 12)), rng.normal(0, 0.01, 40_000)
    assert is_below(now, many).mean() <= ALPHA
    spread_one = np.linspace(-1, 1, 12)
    drop = detectable_drop(spread_one / spread_one.std(ddof=1) * 0.01)
    found = is_below(now + math.log1p(-drop), many).mean()
    assert found == pytest.approx(POWER, abs=0.02)
