"""Pairs of an A/B run without servers: their order, invalid ones, the decision, the table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from draftgate import ab
from draftgate.measure.verdict import Status
from draftgate.report.pairs import render_pairs

from tests.unit.conftest import throughput

NOISE = (1.0, 1.004, 0.997, 1.002, 0.999, 1.001)
LENGTH = 3.5


@pytest.fixture
def compare(monkeypatch):
    """Run an A/B whose boots have these speeds: reference 100 tok/s with noise, candidate given."""

    def compare(candidate, *, unsettled=(), length=LENGTH, pairs=6):
        boots = []

        def measure(side, index):
            boots.append((side.name, index))
            if side.name == "candidate":
                return throughput([candidate] * 3, length, settled=index not in unsettled)
            return throughput([100 * NOISE[index % 6]] * 3, LENGTH)

        monkeypatch.setattr(ab, "_measure", measure)
        session = SimpleNamespace(compiled=lambda: None)
        sides = tuple(SimpleNamespace(name=name, session=session) for name in ab.SIDES)
        run = ab.Comparison(sides, Path())
        run.run(pairs)
        return run, boots

    return compare


def test_boots_go_a_b_b_a(compare):
    _, boots = compare(100.0, pairs=4)
    names = [name[0] for name, _ in boots]
    assert "".join(names) == "rccrrccr"
    assert [index for _, index in boots] == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("candidate", "status"),
    [(100.0, Status.PASS), (99.0, Status.PASS), (95.0, Status.REGRESSION), (106, Status.IMPROVED)],
)
def test_pairs_decide(compare, candidate, status):
    run, _ = compare(candidate)
    tok_s, steps_s = run.judge()
    assert (tok_s.metric, steps_s.metric) == ("throughput", "step-rate")
    assert tok_s.status is steps_s.status is status
    assert tok_s.effect == pytest.approx(candidate / 100 - 1, abs=0.002)


def test_a_lost_acceptance_is_told_from_a_lost_speed(compare):
    run, _ = compare(80.0, length=LENGTH * 0.8)
    tok_s, steps_s = run.judge()
    assert tok_s.status is Status.REGRESSION
    assert steps_s.status is Status.PASS


def test_an_invalid_pair_is_run_again(compare):
    run, boots = compare(95.0, unsettled=(1, 2))
    assert len(boots) == 2 * 8
    assert len(run.valid) == 6
    assert run.judge()[0].status is Status.REGRESSION
    table = render_pairs(run.pairs, run.judge(), width=140).splitlines()
    marked = [line.split()[0] for line in table if "warm-up rounds never agreed" in line]
    assert marked == ["2", "3"]
    assert table[2].split()[:6] == ["1", "100.0", "95.0", "-5.0%", "-5.0%", "146"]


def test_a_machine_that_never_settles_decides_nothing(compare):
    run, boots = compare(50.0, unsettled=range(100))
    assert len(boots) == 2 * 12  # twice as many pairs, and no more
    assert [verdict.status for verdict in run.judge()] == [Status.UNSTABLE]


def test_without_speculation_only_tok_s_is_judged(compare):
    run, _ = compare(95.0, length=None)
    assert [verdict.metric for verdict in run.judge()] == ["throughput"]
    assert "steps" not in render_pairs(run.pairs, run.judge(), width=140)
