"""Greedy text: equal, different at near ties, different in earnest, and nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.gate.text import judge_text
from draftgate.measure.divergences import Divergence, divergences
from draftgate.measure.verdict import Status

TEXTS = {"a": (1, 2, 3), "b": (4, 5, 6), "c": (7, 8, 9)}
OTHER = {**TEXTS, "b": (4, 9, 6), "c": (7, 8, 2)}
B, C = Divergence("b", 1, 9, 5), Divergence("c", 2, 2, 9)


def near(found, gap=0.031):
    return replace(found, likeliest={found.reference: -0.5, found.candidate: -0.5 - gap})


def judge(*found, now=OTHER, exact=True):
    return judge_text(now, TEXTS, "tiny/none/cpu", found, exact=exact)


def test_texts_part_at_their_first_other_token():
    assert divergences(OTHER, TEXTS) == (B, C)
    assert divergences(TEXTS, TEXTS) == ()


def test_equal_texts_pass():
    verdict = judge(now=TEXTS)
    assert (verdict.status, verdict.value) == (Status.PASS, None)
    assert verdict.reasons == ("3 greedy texts equal tiny/none/cpu's",)


def test_near_ties_pass_and_are_counted():
    verdict = judge(near(B), near(C, 0.625))
    assert (verdict.status, verdict.value, verdict.unit) == (Status.PASS, 2, "near ties")
    assert verdict.reasons == (
        "2 of 3 greedy texts differ from tiny/none/cpu's, all at near ties of the target (below "
        "0.75 nats), where rounding chooses; the widest is prompt c, at generated token 2: 2, "
        "there 9, 0.625 nats apart",
    )


@pytest.mark.parametrize(
    ("likeliest", "words"),
    [
        ({5: -0.1, 9: -2.6}, "prompt b, at generated token 1: 9, there 5, 2.500 nats apart."),
        ({9: -0.25, 5: -1.0}, "9, there 5, 0.750 nats apart."),
        (
            {5: -0.1, 7: -0.2, 8: -9.0},
            "9, there 5, and 9 not among the 3 likeliest of the target (5, 7, 8).",
        ),
    ],
)
def test_one_difference_in_earnest_is_red_beside_near_ties(likeliest, words):
    verdict = judge(replace(B, likeliest=likeliest), near(C))
    assert (verdict.status, verdict.value) == (Status.FAIL, 1)
    (told,) = verdict.reasons
    assert told.startswith("2 of 3 greedy texts differ from tiny/none/cpu's (1 no near tie); the")
    assert words in told
    assert "the verify step accepts what the target would not say" in told
    assert "exact_text = false in the profile" in told


def test_an_unknown_gap_is_red_and_accuses_nobody():
    verdict = judge(near(B), replace(C, reason="/generate answered 400"))
    assert verdict.status is Status.FAIL
    (told,) = verdict.reasons
    assert "(1 unknown); the first is prompt c, at generated token 2: 2, there 9, gap" in told
    assert "gap unknown (/generate answered 400). Either the target nearly ties" in told
    assert "exact_text = false in the profile" in told


def test_a_profile_may_allow_other_text():
    assert judge(replace(B, likeliest={5: 0.0, 9: -9.0}), exact=False).status is Status.NOT_GATED
    assert judge(near(B), exact=False).status is Status.NOT_GATED


@pytest.mark.parametrize("now", [{"a": (1, 2, 3)}, {**TEXTS, "b": (4, 5)}])
def test_a_text_that_is_missing_or_short_is_red(now):
    verdict = judge(now=now)
    assert verdict.status is Status.FAIL
    assert verdict.reasons[0].startswith("prompt b: ")


def test_a_tie_of_more_than_two_is_a_tie():
    three = {7: -0.5, 9: -0.5, 5: -0.5}
    verdict = judge(replace(B, likeliest=three))
    assert (verdict.status, verdict.value) == (Status.PASS, 1)
