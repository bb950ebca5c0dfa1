"""What the server says it runs is what the profile asked for."""

from __future__ import annotations

import pytest
from draftgate.gate.flags import judge_algorithm, judge_flags


@pytest.mark.dg_check("algorithm")
@pytest.mark.speculative
def test_eagle3_draft_is_served_as_eagle3(subject, judged):
    judged(judge_algorithm(subject.draft.config["architectures"], subject.server.info))


@pytest.mark.dg_check("flags")
def test_server_runs_what_was_asked_for(spec, subject, judged):
    target, draft = subject.model_paths
    judged(judge_flags(spec, subject.server.info, target_path=target, draft_path=draft))
    subject.require_known_models()
