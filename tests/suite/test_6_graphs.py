"""CUDA graphs: really used, and changing nothing but the speed."""

from __future__ import annotations

import pytest

from fixtures.gate.graphs import judge_graph_use, judge_same_acceptance, judge_same_states


def test_graphs_are_used_as_asked(spec, subject, judged):
    subject.acceptance_run  # noqa: B018 - decode lines appear in the log once something decoded
    log = subject.server.log.path.read_text(errors="replace")
    judged(judge_graph_use(log, asked=spec.cuda_graphs))


@pytest.mark.speculative
def test_decoded_states_are_kept_for_the_twin(spec, session, subject):
    session.states[spec.id] = subject.decoded_states
    assert all(session.states[spec.id].values())


@pytest.mark.speculative
@pytest.mark.graph_pair
def test_graphs_change_nothing(spec, session, subject, judged):
    twin = spec.id.removesuffix("/eager") + "/graph"
    on, off = session.records[twin].acceptance, subject.acceptance_run[0]
    judged(judge_same_acceptance(on, off))
    judged(judge_same_states(session.states[twin], subject.decoded_states))
