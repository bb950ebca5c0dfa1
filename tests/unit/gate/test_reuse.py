"""Prompts and next turns found in the radix cache: as on a cold one, not found, worse, parted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.gate.reuse import judge_cached, judge_next_turns
from draftgate.measure.divergences import Divergence
from draftgate.measure.reuse import Reuse, unasked
from draftgate.measure.samples import PromptSample
from draftgate.measure.verdict import Status

TIE = Divergence("p1", 7, 5, 9, {9: -0.5, 5: -0.75})
"""The second prompt's text parts where the target's two likeliest are 0.25 nats apart."""
EARNEST = replace(TIE, likeliest={9: -0.5, 5: -3.5})
UNKNOWN = replace(TIE, likeliest=None, reason="/generate answered 400")


def samples(*steps: int, cached: int) -> tuple[PromptSample, ...]:
    return tuple(PromptSample(f"p{i}", 64, count, cached, "") for i, count in enumerate(steps))


def reuse(*steps: int, cached: int = 87, apart: tuple[Divergence, ...] = ()) -> Reuse:
    """Next turns behind prompts of 24 tokens, of 20 verify steps each on a cold cache."""
    cold = samples(*[20] * len(steps), cached=0)
    return Reuse(cold, samples(*steps, cached=cached), (24,) * len(steps), apart)


@pytest.mark.parametrize(
    ("found", "exact", "status", "words"),
    [
        (reuse(20, 20), True, Status.PASS, "3.200 on next turns, 3.200 on a cold cache"),
        (reuse(20, 21), True, Status.FAIL, "1 of 2 next turns take other verify steps"),
        (reuse(20, 21), False, Status.PASS, "3.122 on next turns, 3.200 on a cold cache"),
        (reuse(20, 22), False, Status.PASS, "3.048 on next turns, 3.200 on a cold cache"),
        (reuse(20, 23), False, Status.FAIL, "(first p1)"),
        (reuse(20, 17), False, Status.FAIL, "(first p1)"),
        (reuse(64, 64), True, Status.FAIL, "1.000 on next turns, 3.200 on a cold cache: 2 of 2"),
        (reuse(20, 20, cached=25), True, Status.PASS, "3.200"),
        (reuse(20, 21, cached=24), True, Status.NOT_COMPARABLE, "the prefix was not reused: 2"),
        (reuse(20, 25, apart=(TIE,)), True, Status.PASS, "2.844 on next turns, 3.200 on"),
        (reuse(20, 26, apart=(TIE,)), True, Status.FAIL, "1 of 2 next turns take other"),
        (reuse(21, 20, apart=(TIE,)), True, Status.FAIL, "1 of 2 next turns take other"),
        (reuse(20, apart=(replace(TIE, prompt_id="p0"),)), True, Status.PASS, "3.200"),
        (
            reuse(20, 20, apart=(EARNEST,)),
            True,
            Status.FAIL,
            "1 of 2 texts differ from those",
        ),
        (
            reuse(20, 20, apart=(UNKNOWN,)),
            True,
            Status.FAIL,
            "gap unknown (/generate answered",
        ),
        (
            reuse(20, 26, apart=(EARNEST,)),
            False,
            Status.PASS,
            "2.783 on next turns, 3.200 on",
        ),
        (reuse(20, 27, apart=(EARNEST,)), False, Status.FAIL, "(first p1)"),
        (
            reuse(60, 60, apart=(EARNEST,)),
            False,
            Status.FAIL,
            "1.067 on next turns, 3.200 on",
        ),
        (reuse(30, apart=(replace(TIE, prompt_id="p0"),)), True, Status.FAIL, "1 of 1 next"),
    ],
)
def test_next_turns(found, exact, status, words):
    verdict = judge_next_turns(found, exact=exact)
    assert (verdict.status, words in verdict.reasons[0]) == (status, True), verdict
    assert judge_next_turns(found, exact=exact, gated=False).status is Status.NOT_GATED


def test_lost_keys_are_told_in_full():
    verdict = judge_next_turns(reuse(40, 40), exact=True)
    assert (verdict.metric, verdict.value, verdict.limit) == ("next-turns", 1.6, 3.2)
    assert verdict.reasons == (
        "acceptance length 1.600 on next turns, 3.200 on a cold cache: 2 of 2 next turns take "
        "other verify steps when they are found in the radix cache (first p0); the draft's own "
        "keys of the generated tokens are lost or wrong there. --disable-radix-cache avoids it, at "
        "the price of every prefill.",
    )
    (told,) = judge_cached(reuse(40, 40), exact=True).reasons
    assert "2 of 2 cached prompts take other verify steps" in told
    assert "the draft's own keys of the prompt are lost or wrong there" in told


def test_a_prefix_that_was_not_reused_is_told_in_full():
    assert judge_next_turns(reuse(20, 20, cached=23), exact=True).reasons == (
        "acceptance length 3.200 on next turns, 3.200 on a cold cache; the prefix was not reused: "
        "2 of 2 next turns found none of the generated tokens in the cache, which is full or does "
        "not keep it (first p0: 23 tokens came from there, expected more than 24)",
    )


def test_a_near_tie_is_told():
    verdict = judge_next_turns(reuse(20, 20, apart=(TIE,)), exact=True)
    assert (verdict.status, verdict.value, verdict.limit) == (Status.PASS, 3.2, 3.2)
    assert verdict.reasons == (
        "acceptance length 3.200 on next turns, 3.200 on a cold cache; 1 of 2 texts diverge at "
        "near ties of the target (below 0.75 nats), the first is prompt p1, at generated token 7: "
        "5, there 9, 0.250 nats apart",
    )


def test_a_text_that_changes_in_earnest_is_told_in_full():
    assert judge_cached(reuse(20, 20, apart=(EARNEST,)), exact=True).reasons == (
        "acceptance length 3.200 on cached prompts, 3.200 on a cold cache: 1 of 2 texts differ "
        "from those on a cold cache, at no near tie of the target that is known; the first is "
        "prompt p1, at generated token 7: 5, there 9, 3.000 nats apart. A beginning found in the "
        "radix cache must not change the text. If this pair's text may differ, exact_text = false "
        "in the profile says so.",
    )


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"disable_radix_cache": True}, "the server runs with --disable-radix-cache"),
        (
            {"disable_radix_cache": False, "dp_size": 2},
            "each of 2 data-parallel ranks has a cache of its own, and requests go to them in turn",
        ),
        (
            {"disable_radix_cache": False, "dp_size": 1, "attn_dp_size": 4},
            "each of 4 data-parallel ranks has a cache of its own, and requests go to them in turn",
        ),
    ],
)
def test_without_a_cache_that_all_requests_share_nothing_is_judged(info, words):
    verdict = judge_cached(unasked(info), exact=True)
    assert (verdict.status, verdict.value, verdict.limit) == (Status.NOT_GATED, None, None)
    assert verdict.reasons == (f"not asked: {words}",)
    assert unasked({"disable_radix_cache": False, "dp_size": 1}) is None
