from __future__ import annotations

import re
from itertools import zip_longest

import pytest
from draftgate.gate.acceptance import judge_length
from draftgate.measure.samples import AcceptanceSample, PromptSample
from draftgate.measure.verdict import Status


def sample(*counts: tuple[int, int], categories: str = "") -> AcceptanceSample:
    """A run whose prompts generated (tokens) in (verify steps), each of a one-letter category."""
    return AcceptanceSample(
        prompts=tuple(
            PromptSample(f"p{i}", tokens, steps, 0, "", category)
            for i, ((tokens, steps), category) in enumerate(
                zip_longest(counts, categories, fillvalue="")
            )
        ),
        max_new_tokens=128,
        concurrency=8,
        prompt_set_sha256="",
        histogram=None,
    )


def length(run: AcceptanceSample, floor: float | None = 3.4, ceiling: float | None = None):
    return judge_length(run, num_steps=3, floor=floor, ceiling=ceiling)


def test_length_is_a_ratio_of_sums():
    assert sample((100, 50), (100, 20)).length == pytest.approx(200 / 70)


@pytest.mark.parametrize(
    ("run", "floor", "status", "words"),
    [
        (sample((128, 36)), 3.4, Status.PASS, "3.556"),
        (sample((128, 40)), 3.2, Status.PASS, "3.200"),  # exactly at the floor
        (sample((128, 40)), 3.21, Status.FAIL, "below the profile's floor 3.21"),
        (sample((128, 127)), 3.4, Status.FAIL, "collapsed"),
        (sample((110, 100)), None, Status.FAIL, "collapsed"),  # exactly at the tripwire
        (sample((111, 100)), None, Status.NOT_COMPARABLE, "sets no acceptance_floor"),
        (sample((111, 100)), 1.11, Status.PASS, "1.110"),
        (sample((128, 32)), 3.4, Status.FAIL, "everything was accepted"),  # 127 tokens / 4
        (sample((128, 33)), 3.4, Status.PASS, "3.879"),
    ],
)
def test_limits(run, floor, status, words):
    verdict = length(run, floor)
    assert verdict.status is status
    assert words in verdict.reasons[0]


def test_lengths_by_category_are_ratios_of_sums():
    run = sample((128, 32), (128, 64), (100, 100), categories="mm")
    assert run.length_by_category == {"m": 256 / 96}


@pytest.mark.parametrize(
    ("floors", "status", "words"),
    [
        ({"a": 3.2, "b": 2.0}, Status.PASS, "acceptance length 2.462"),
        ({"a": 3.3, "b": 2.0}, Status.FAIL, "floor of its category: a 3.200 < 3.3"),
        ({"a": 3.3, "b": 2.5}, Status.FAIL, "category: a 3.200 < 3.3, b 2.000 < 2.5"),
    ],
)
def test_floors_of_categories(floors, status, words):
    run = sample((128, 40), (128, 64), categories="ab")
    verdict = judge_length(run, num_steps=3, floor=2.4, ceiling=None, category_floors=floors)
    assert verdict.status is status
    assert re.search(words, verdict.reasons[0])


def test_ceiling_of_the_profile():
    assert length(sample((128, 36)), ceiling=3.5).status is Status.FAIL
    assert length(sample((128, 36)), ceiling=3.6).status is Status.PASS


def test_simulated_acceptance_is_red_however_good():
    verdict = judge_length(
        sample((128, 36)),
        num_steps=3,
        floor=3.4,
        ceiling=None,
        simulated_by="SGLANG_SIMULATE_ACC_LEN",
    )
    assert verdict.status is Status.FAIL
    assert "SGLANG_SIMULATE_ACC_LEN makes the server simulate" in verdict.reasons[0]


def test_random_weights_are_shown_and_not_judged():
    verdict = judge_length(sample((128, 128)), num_steps=3, floor=3.4, ceiling=None, gated=False)
    assert verdict.status is Status.NOT_GATED


def test_a_run_without_verify_steps_is_not_judged():
    run = AcceptanceSample((PromptSample("a", 128, None, 0, ""),), 128, 8, "", None)
    with pytest.raises(ValueError, match="no verify steps"):
        length(run)
