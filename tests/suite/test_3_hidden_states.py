"""The hidden states on their way to the draft: how wide they are and where they come from."""

from __future__ import annotations

import pytest
from draftgate.gate.hidden_states import (
    judge_fc_width,
    judge_layers,
    judge_returned_width,
    judge_step_widths,
)

pytestmark = pytest.mark.dg_speculative


@pytest.fixture
def widths(dg_spec, dg_boot, dg_session, dg_server):
    dg_session.update(dg_spec, dg_boot, widths=dg_server.widths)
    return dg_server.widths


@pytest.mark.dg_check("fc-width")
def test_fc_is_fed_the_concatenated_layers(dg_server, widths, dg_judge):
    dg_judge(judge_fc_width(widths, dg_server.draft.config["hidden_size"]))


@pytest.mark.dg_check("returned-width")
def test_server_returns_the_concatenated_layers(dg_spec, dg_session, dg_server, dg_judge):
    dg_judge(judge_returned_width(dg_server.returned))
    dg_session.references.put(dg_spec.id, "states", dg_server.decoded_states)


@pytest.mark.dg_check("step-widths")
def test_draft_steps_are_fed_the_plain_width(dg_spec, dg_server, widths, dg_judge):
    dg_judge(
        judge_step_widths(
            widths,
            dg_server.draft.config["hidden_size"],
            graphs=dg_spec.cuda_graphs,
            num_steps=dg_spec.speculation.num_steps,
        )
    )


@pytest.mark.dg_check("layers")
def test_draft_is_fed_the_layers_it_was_trained_on(
    dg_spec, dg_boot, dg_session, dg_server, dg_judge
):
    dg_session.update(dg_spec, dg_boot, layers=dg_server.layers)
    dg_judge(judge_layers(dg_server.layers, ranks=dg_spec.ranks_a_request))
