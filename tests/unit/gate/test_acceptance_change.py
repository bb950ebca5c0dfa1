from __future__ import annotations

import pytest
from draftgate.gate.acceptance import judge_change
from draftgate.measure.samples import AcceptanceSample, PromptSample
from draftgate.measure.verdict import Status
from hypothesis import given
from hypothesis import strategies as st

STEPS = tuple(range(30, 62))
SAME = [[STEPS]] * 5


def run(steps, tokens=128) -> AcceptanceSample:
    prompts = tuple(PromptSample(f"p{i}", tokens, s, 0, "") for i, s in enumerate(steps))
    return AcceptanceSample(prompts, tokens, 8, "aa", None)


def judge(steps, sessions):
    return judge_change(run(steps), [[run(s) for s in session] for session in sessions])


def noisy(seed: int) -> tuple[int, ...]:
    """The counts of a run in which a third of the prompts took one step more or fewer."""
    return tuple(
        s + ((i * 7 + seed) % 6 == 0) - ((i * 5 + seed) % 6 == 1) for i, s in enumerate(STEPS)
    )


def moved(*changes: int) -> tuple[int, ...]:
    return tuple(s + c for s, c in zip(STEPS, (*changes, *[0] * 32), strict=False))


@pytest.mark.parametrize(
    ("steps", "status", "words"),
    [
        (STEPS, Status.PASS, "the same verify steps for every prompt"),
        (moved(1), Status.REGRESSION, "1 of 32 prompts take other verify steps (first p0)"),
        (moved(0, -1), Status.IMPROVED, "(first p1)"),
        (moved(1, -1), Status.PASS, "2 of 32 prompts take other verify steps"),
    ],
)
def test_where_counts_repeat_exactly_any_change_is_one(steps, status, words):
    verdict = judge(steps, SAME)
    assert verdict.status is status
    assert words in verdict.reasons[0]


def test_counts_that_differ_between_boots_are_noise():
    sessions = [[noisy(1), noisy(2)], [noisy(3)], [noisy(4)], [noisy(5)], [noisy(6)]]
    assert judge(noisy(9), sessions).status is Status.PASS
    assert judge(moved(1), sessions).status is Status.PASS
    worse = judge(tuple(s * 11 // 10 for s in noisy(9)), sessions)
    assert worse.status is Status.REGRESSION
    assert worse.interval[0] < worse.effect < worse.interval[1] < -0.02
    assert worse.reasons[1] == "provisional: 5 of 12 accepted sessions"
    assert judge(tuple(s * 9 // 10 for s in noisy(9)), sessions).status is Status.IMPROVED
    assert judge(noisy(9), sessions) == judge(noisy(9), sessions[::-1])  # seeded, order irrelevant


def test_too_few_sessions():
    assert judge(STEPS, []).status is Status.NO_BASELINE
    assert judge(moved(99), SAME[:4]).status is Status.RECORDING
    other = judge_change(run(STEPS), [], (Status.NOT_COMPARABLE, "another draft was measured"))
    assert other.status is Status.NOT_COMPARABLE
    assert "another draft was measured" in other.reasons[0]


def test_random_weights_are_shown_and_not_judged():
    runs = [[run(STEPS)]] * 5
    assert judge_change(run(moved(9)), runs, gated=False).status is Status.NOT_GATED


def test_a_run_without_verify_steps_is_not_judged():
    with pytest.raises(ValueError, match="no verify steps"):
        judge_change(run((None,)), [])


@given(st.integers(1, 60), st.integers(0, 60))
def test_a_larger_loss_is_never_judged_milder(loss, more):
    sessions = [[noisy(k)] for k in range(5)]
    smaller = judge(tuple(s + loss for s in STEPS), sessions)
    larger = judge(tuple(s + loss + more for s in STEPS), sessions)
    assert smaller.status is not Status.REGRESSION or larger.status is Status.REGRESSION
    assert larger.effect <= smaller.effect
