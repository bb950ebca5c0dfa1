"""CUDA graphs: really used, and changing nothing but the speed."""

from __future__ import annotations

import pytest
from draftgate.gate.acceptance import judge_same_acceptance
from draftgate.gate.graphs import judge_graphs, judge_same_states


@pytest.mark.dg_check("graphs-used")
@pytest.mark.dg_on_gpu
def test_graphs_are_used_as_asked(dg_spec, dg_server, dg_judge):
    dg_server.acceptance_run  # noqa: B018 - decode lines appear in the log once something decoded
    dg_judge(*judge_graphs(dg_spec, dg_server.handle.log_text()))


@pytest.mark.dg_check("graphs-change-nothing")
@pytest.mark.dg_speculative
@pytest.mark.dg_graph_pair
def test_graphs_change_nothing(dg_spec, dg_session, dg_server, dg_judge):
    twin = dg_spec.graph_twin_id
    acceptance = dg_session.references.get(twin, "acceptance")
    states = dg_session.references.get(twin, "states")
    if acceptance is None or states is None:
        pytest.skip(f"not measured: {twin} was not run to its end")
    dg_judge(
        judge_same_acceptance(acceptance, dg_server.acceptance_run[0], exact=dg_spec.exact_text)
    )
    dg_judge(judge_same_states(states, dg_server.decoded_states))
