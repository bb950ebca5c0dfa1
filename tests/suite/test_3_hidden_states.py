"""The hidden states on their way to the draft: how wide they are and where they come from."""

from __future__ import annotations

import pytest
from draftgate.gate.hidden_states import (
    judge_fc_width,
    judge_layers,
    judge_returned_width,
    judge_step_widths,
)

pytestmark = pytest.mark.speculative


@pytest.fixture
def widths(spec, boot, session, subject):
    session.update(spec, boot, widths=subject.widths)
    return subject.widths


@pytest.mark.dg_check("fc-width")
def test_fc_is_fed_the_concatenated_layers(subject, widths, judged):
    judged(judge_fc_width(widths, subject.draft.config["hidden_size"]))


@pytest.mark.dg_check("returned-width")
def test_server_returns_the_concatenated_layers(spec, session, subject, judged):
    judged(judge_returned_width(subject.returned))
    session.exchange.put(spec.id, "states", subject.decoded_states)


@pytest.mark.dg_check("step-widths")
def test_draft_steps_are_fed_the_plain_width(spec, subject, widths, judged):
    judged(
        judge_step_widths(
            widths,
            subject.draft.config["hidden_size"],
            graphs=spec.cuda_graphs,
            num_steps=spec.speculation.num_steps,
        )
    )


@pytest.mark.dg_check("layers")
def test_draft_is_fed_the_layers_it_was_trained_on(spec, boot, session, subject, judged):
    session.update(spec, boot, layers=subject.layers)
    judged(judge_layers(subject.layers, ranks=spec.ranks_a_request))
