from __future__ import annotations

import math

import numpy as np
import pytest
from draftgate.gate.paired import change, is_slower, judge_pairs
from draftgate.measure.verdict import Metric, Status
from hypothesis import given
from hypothesis import strategies as st

QUIET = (0.004, -0.003, 0.001, -0.002, 0.003, -0.001)


def pairs(drop: float, scale: float = 1.0) -> list[float]:
    return [math.log1p(-drop) + scale * noise for noise in QUIET]


@pytest.mark.parametrize(
    ("ratios", "status"),
    [
        (pairs(0), Status.PASS),
        (pairs(0.01), Status.PASS),  # certain, and too small to matter
        (pairs(0.03), Status.REGRESSION),
        (pairs(-0.05), Status.IMPROVED),
        (pairs(0.05, 30), Status.UNGATED_NOISY),
        (pairs(0.05)[:2], Status.UNSTABLE),
        ([*pairs(0), math.nan], Status.UNSTABLE),
        ([], Status.UNSTABLE),
    ],
)
def test_each_status(ratios, status):
    assert judge_pairs(Metric.THROUGHPUT, ratios).status is status


def test_words_of_a_slowdown():
    verdict = judge_pairs(Metric.THROUGHPUT, pairs(0.1))
    assert verdict.effect == pytest.approx(-0.1, abs=0.001)
    assert verdict.interval[0] < -0.1 < verdict.interval[1]
    assert verdict.reasons == ("slower: -10.0% over 6 pairs (95 %: -10.2% to -9.7%)",)


def test_the_standard_error_is_that_of_the_pairs():
    found = change(QUIET)
    assert float(found.error) == pytest.approx(np.std(QUIET, ddof=1) / math.sqrt(6))


@given(st.floats(0.021, 0.5), st.floats(0, 0.5))
def test_a_larger_drop_is_never_judged_milder(drop, more):
    assert bool(is_slower(pairs(drop))) <= bool(is_slower([r - more for r in pairs(drop)]))


@given(st.permutations(pairs(0.05)))
def test_the_order_of_pairs_is_irrelevant(ratios):
    assert judge_pairs(Metric.THROUGHPUT, ratios).status is Status.REGRESSION
