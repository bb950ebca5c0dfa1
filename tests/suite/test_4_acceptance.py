"""How much of the draft's work the target accepts, and that the text does not change."""

from __future__ import annotations

import pytest
from draftgate.gate.acceptance import judge_length
from draftgate.gate.acceptance_change import judge_change
from draftgate.gate.history import acceptance_of, baseline_of
from draftgate.gate.reuse import judge_cached, judge_next_turns
from draftgate.gate.several_gpus import judge_several_gpus
from draftgate.gate.text import judge_text
from draftgate.preflight.serving import simulated_by


@pytest.mark.dg_check("text")
def test_greedy_text_equals_no_speculation(spec, session, subject, judged):
    sample, texts = subject.acceptance_run
    session.exchange.put(spec.id, "acceptance", sample)
    session.exchange.put(spec.id, "texts", texts)
    if spec.speculation is None:
        return
    reference = session.exchange.get(spec.reference_id, "texts")
    if reference is None:
        pytest.skip(f"not measured: {spec.reference_id or 'a reference server'} was not run")
    diverging = subject.divergences_from(reference)
    judged(judge_text(texts, reference, spec.reference_id, diverging, exact=spec.exact_text))


@pytest.fixture
def acceptance(spec, boot, session, subject):
    sample, _ = subject.acceptance_run
    session.update(spec, boot, acceptance=sample)
    return sample


@pytest.mark.dg_check("acceptance")
@pytest.mark.speculative
def test_acceptance_length(spec, boot, session, subject, acceptance, judged):
    verdict = judge_length(
        acceptance,
        num_steps=spec.speculation.num_steps,
        floor=spec.acceptance_floor,
        ceiling=spec.acceptance_ceiling,
        category_floors=dict(spec.category_floors),
        simulated_by=simulated_by(dict(spec.env)),
        gated=session.profiles[spec.profile].acceptance_means_something,
    )
    judged(verdict, explain=lambda: session.explain_acceptance(subject, boot))


@pytest.mark.dg_check("acceptance-change")
@pytest.mark.speculative
def test_acceptance_is_that_of_the_baseline(spec, boot, session, subject, acceptance, judged):
    baseline = baseline_of(session.compiled(), spec.id, session.accepted)
    gated = session.profiles[spec.profile].acceptance_means_something
    runs = acceptance_of(spec.id, baseline)
    verdict = judge_change(acceptance, runs, baseline.absence, gated=gated)
    judged(verdict, explain=lambda: session.explain_acceptance(subject, boot))


@pytest.mark.dg_check("cached-prompts")
@pytest.mark.speculative
def test_a_cached_prompt_is_accepted_as_a_cold_one(spec, session, subject, judged):
    gated = session.profiles[spec.profile].acceptance_means_something
    judged(judge_cached(subject.cached_run(), exact=spec.exact_text, gated=gated))


@pytest.mark.dg_check("next-turns")
@pytest.mark.speculative
def test_a_next_turn_is_accepted_as_on_a_cold_cache(spec, session, subject, judged):
    gated = session.profiles[spec.profile].acceptance_means_something
    judged(judge_next_turns(subject.next_turns(), exact=spec.exact_text, gated=gated))


@pytest.mark.dg_check("several-gpus")
@pytest.mark.speculative
@pytest.mark.several_gpus
def test_several_gpus_accept_as_one_does(spec, session, acceptance, judged):
    one = session.exchange.get(spec.one_rank_id, "acceptance")
    if one is None:
        pytest.skip(f"not measured: {spec.one_rank_id} was not run to its end")
    gated = session.profiles[spec.profile].acceptance_means_something
    exact = spec.exact_text and spec.tp == 1
    judged(judge_several_gpus(acceptance, one, exact=exact, gated=gated))
