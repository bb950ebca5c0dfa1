"""CUDA graphs: really used, and changing nothing but the speed."""

from __future__ import annotations

import pytest
from draftgate.gate.graphs import judge_graphs, judge_same_acceptance, judge_same_states


@pytest.mark.dg_check("graphs-used")
@pytest.mark.on_gpu
def test_graphs_are_used_as_asked(spec, subject, judged):
    subject.acceptance_run  # noqa: B018 - decode lines appear in the log once something decoded
    judged(*judge_graphs(spec, subject.server.log_text()))


@pytest.mark.dg_check("graphs-change-nothing")
@pytest.mark.speculative
@pytest.mark.graph_pair
def test_graphs_change_nothing(spec, session, subject, judged):
    twin = spec.graph_twin_id
    acceptance = session.exchange.get(twin, "acceptance")
    states = session.exchange.get(twin, "states")
    if acceptance is None or states is None:
        pytest.skip(f"not measured: {twin} was not run to its end")
    judged(judge_same_acceptance(acceptance, subject.acceptance_run[0], exact=spec.exact_text))
    judged(judge_same_states(states, subject.decoded_states))
