"""Text that speculation changes: where the target nearly ties, and where it does not."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import SPEC

TEXT = "text"


@pytest.mark.parametrize(
    ("fault", "code", "outcome", "words"),
    [
        ("near_tie", 0, "passed", "8 of 8 greedy texts differ from mine/none/cpu's, all at near"),
        ("other_text", 1, "failed", "(8 no near tie); the first is prompt h00, at generated"),
    ],
)
def test_the_target_is_asked_where_texts_part(stand_in, fault, code, outcome, words):
    run = stand_in.run("-k", "greedy_text", FAKE_SGLANG_FAULT=fault)
    assert run.code == code, run.text
    server = stand_in.record().servers[SPEC]
    assert server.outcomes[TEXT] == outcome
    (verdict,) = (v for v in server.verdicts if v.metric == "text")
    assert words in verdict.reasons[0]
    assert verdict.value == (8 if fault == "near_tie" else 0)
    nats = "0.030" if fault == "near_tie" else "3.000"
    assert f", {nats} nats apart" in verdict.reasons[0]
