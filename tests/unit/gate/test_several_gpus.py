from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.gate.acceptance import judge_several_gpus
from draftgate.measure.verdict import Status

from tests.unit.conftest import acceptance

ONE = acceptance(36, 37, 38)


@pytest.mark.parametrize(
    ("steps", "exact", "status"),
    [
        ((36, 37, 38), True, Status.PASS),
        ((36, 37, 38), False, Status.PASS),
        ((37, 36, 38), True, Status.FAIL),  # the same sum
        ((37, 36, 38), False, Status.PASS),
        ((37, 38, 39), False, Status.PASS),  # 2.6 % less
        ((37, 38, 40), False, Status.FAIL),  # 3.5 % less
        ((35, 36, 36), False, Status.FAIL),  # 3.7 % more
    ],
)
def test_verify_steps_are_those_of_one_gpu(steps, exact, status):
    assert judge_several_gpus(acceptance(*steps), ONE, exact=exact).status is status


@pytest.mark.parametrize("exact", [True, False])
def test_what_dp_attention_lost_is_red(exact):
    """sglang issue 16274: 2.35 with one rank, 1.48 with DP attention."""
    verdict = judge_several_gpus(acceptance(86, 86, 87), acceptance(54, 54, 55), exact=exact)
    assert verdict.status is Status.FAIL
    assert verdict.reasons[0].startswith(
        "acceptance length 1.483 on several GPUs, 2.356 on one: 3 of 3 prompts take other verify "
        "steps (first p0)."
    )
    assert (round(verdict.value, 3), round(verdict.limit, 3)) == (1.483, 2.356)


def test_other_prompts_are_not_compared():
    other = replace(acceptance(86, 86, 87), prompt_set_sha256="bb")
    verdict = judge_several_gpus(other, ONE, exact=True)
    assert verdict.status is Status.NOT_COMPARABLE
    assert verdict.reasons[0].endswith("3.459 on one, of other prompts")


def test_random_weights_are_shown_and_not_judged():
    verdict = judge_several_gpus(acceptance(86, 86, 87), ONE, exact=True, gated=False)
    assert verdict.status is Status.NOT_GATED
    assert "the profile says they mean nothing" in verdict.reasons[0]


def test_a_server_that_counts_no_steps_is_an_error():
    silent = replace(ONE, prompts=tuple(replace(p, verify_steps=None) for p in ONE.prompts))
    with pytest.raises(ValueError, match="no verify steps"):
        judge_several_gpus(silent, ONE, exact=True)
