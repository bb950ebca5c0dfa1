"""How much of the draft's work the target accepts, and that the text does not change."""

from __future__ import annotations

import pytest
from draftgate.gate.acceptance import judge_change, judge_length, judge_several_gpus
from draftgate.gate.history import acceptance_of, baseline_of
from draftgate.gate.reuse import judge_cached, judge_next_turns
from draftgate.gate.text import judge_text
from draftgate.preflight.serving import simulated_by


@pytest.mark.dg_check("text")
def test_greedy_text_equals_no_speculation(dg_spec, dg_session, dg_server, dg_judge):
    sample, texts = dg_server.acceptance_run
    dg_session.references.put(dg_spec.id, "acceptance", sample)
    dg_session.references.put(dg_spec.id, "texts", texts)
    if dg_spec.speculation is None:
        return
    reference = dg_session.references.get(dg_spec.reference_id, "texts")
    if reference is None:
        pytest.skip(f"not measured: {dg_spec.reference_id or 'a reference server'} was not run")
    diverging = dg_server.divergences_from(reference)
    dg_judge(
        judge_text(texts, reference, dg_spec.reference_id, diverging, exact=dg_spec.exact_text)
    )


@pytest.fixture
def acceptance(dg_spec, dg_boot, dg_session, dg_server):
    sample, _ = dg_server.acceptance_run
    dg_session.update(dg_spec, dg_boot, acceptance=sample)
    return sample


@pytest.mark.dg_check("acceptance")
@pytest.mark.dg_speculative
def test_acceptance_length(dg_spec, dg_boot, dg_session, dg_server, acceptance, dg_judge):
    verdict = judge_length(
        acceptance,
        num_steps=dg_spec.speculation.num_steps,
        floor=dg_spec.acceptance_floor,
        ceiling=dg_spec.acceptance_ceiling,
        category_floors=dict(dg_spec.category_floors),
        simulated_by=simulated_by(dict(dg_spec.env)),
        gated=dg_session.profiles[dg_spec.profile].acceptance_means_something,
    )
    dg_judge(verdict, explain=lambda: dg_session.explain_acceptance(dg_server, dg_boot))


@pytest.mark.dg_check("acceptance-change")
@pytest.mark.dg_speculative
def test_acceptance_is_that_of_the_baseline(
    dg_spec, dg_boot, dg_session, dg_server, acceptance, dg_judge
):
    baseline = baseline_of(dg_session.compiled(), dg_spec.id, dg_session.accepted)
    gated = dg_session.profiles[dg_spec.profile].acceptance_means_something
    runs = acceptance_of(dg_spec.id, baseline)
    verdict = judge_change(acceptance, runs, baseline.absence, gated=gated)
    dg_judge(verdict, explain=lambda: dg_session.explain_acceptance(dg_server, dg_boot))


@pytest.mark.dg_check("cached-prompts")
@pytest.mark.dg_speculative
def test_a_cached_prompt_is_accepted_as_a_cold_one(dg_spec, dg_session, dg_server, dg_judge):
    gated = dg_session.profiles[dg_spec.profile].acceptance_means_something
    dg_judge(judge_cached(dg_server.cached_run(), exact=dg_spec.exact_text, gated=gated))


@pytest.mark.dg_check("next-turns")
@pytest.mark.dg_speculative
def test_a_next_turn_is_accepted_as_on_a_cold_cache(dg_spec, dg_session, dg_server, dg_judge):
    gated = dg_session.profiles[dg_spec.profile].acceptance_means_something
    dg_judge(judge_next_turns(dg_server.next_turns(), exact=dg_spec.exact_text, gated=gated))


@pytest.mark.dg_check("several-gpus")
@pytest.mark.dg_speculative
@pytest.mark.dg_several_gpus
def test_several_gpus_accept_as_one_does(dg_spec, dg_session, acceptance, dg_judge):
    one = dg_session.references.get(dg_spec.one_rank_id, "acceptance")
    if one is None:
        pytest.skip(f"not measured: {dg_spec.one_rank_id} was not run to its end")
    gated = dg_session.profiles[dg_spec.profile].acceptance_means_something
    exact = dg_spec.exact_text and dg_spec.tp == 1
    dg_judge(judge_several_gpus(acceptance, one, exact=exact, gated=gated))
