from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fixtures.gate.throughput import judge_throughput
from fixtures.gate.verdict import Status
from fixtures.measure.samples import Round, ThroughputSample


def boot(*tok_s: float, settled: bool = True, concurrency: int = 1) -> ThroughputSample:
    """One boot whose rounds ran at these speeds."""
    rounds = tuple(Round(1000 / speed, 1000, None, None) for speed in tok_s)
    return ThroughputSample((), rounds, settled, concurrency, 128, 8, "aa")


def judge(now, accepted, *, gated=True, tolerance=0.05):
    return judge_throughput(now, accepted, tolerance=tolerance, gated=gated, where="baselines/x")


def test_median_of_the_rounds():
    assert round(boot(90, 100, 300).tok_s) == 100


def test_each_status():
    base = [boot(100), boot(102), boot(98)]
    assert judge(boot(100), base).status is Status.PASS
    assert judge(boot(95.1), base).status is Status.PASS
    assert judge(boot(94.9), base).status is Status.REGRESSION
    assert judge(boot(106), base).status is Status.IMPROVED
    assert judge(boot(50), []).status is Status.NO_BASELINE
    assert judge(boot(50), base, gated=False).status is Status.NOT_GATED
    assert judge(boot(90, 94, 97, settled=False), base).status is Status.UNSTABLE
    assert judge(boot(10, 50, settled=False), base).status is Status.REGRESSION
    assert judge(boot(50, concurrency=8), base).status is Status.NOT_COMPARABLE


def test_words_of_a_regression():
    verdict = judge(boot(80), [boot(100)])
    assert verdict.reasons == (
        "slower in every round: 80.0 tok/s against 100.0 (-20.0%; 1 accepted record in "
        "baselines/x; limit 95.0)",
    )
    assert verdict.effect is not None
    assert round(verdict.effect, 6) == -0.2


speeds = st.floats(1, 1e5)


@given(speeds)
def test_equal_passes(speed):
    assert judge(boot(speed), [boot(speed)]).status is Status.PASS


@given(speeds, st.floats(0.051, 0.99), st.floats(0, 0.9))
def test_a_larger_drop_is_never_judged_milder(speed, drop, more):
    smaller = judge(boot(speed * (1 - drop)), [boot(speed)])
    larger = judge(boot(speed * (1 - drop) * (1 - more)), [boot(speed)])
    assert smaller.status is Status.REGRESSION
    assert larger.status is Status.REGRESSION


@given(st.permutations([90.0, 100.0, 101.0, 250.0]))
def test_the_order_of_records_is_irrelevant(order):
    assert judge(boot(95), [boot(s) for s in order]) == judge(
        boot(95), [boot(s) for s in sorted(order)]
    )
