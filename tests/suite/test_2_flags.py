"""What the server says it runs is what the profile asked for."""

from __future__ import annotations

import pytest
from draftgate.gate.flags import judge_algorithm, judge_flags


@pytest.mark.dg_check("algorithm")
@pytest.mark.dg_speculative
def test_eagle3_draft_is_served_as_eagle3(dg_server, dg_judge):
    dg_judge(judge_algorithm(dg_server.draft.config["architectures"], dg_server.info))


@pytest.mark.dg_check("flags")
def test_server_runs_what_was_asked_for(dg_spec, dg_server, dg_judge):
    target, draft = dg_server.model_paths
    dg_judge(judge_flags(dg_spec, dg_server.info, target_path=target, draft_path=draft))
    dg_server.require_known_models()
