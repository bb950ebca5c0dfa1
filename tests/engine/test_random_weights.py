"""Models without weights: a plug-in draws them in the server, at a scale where layers differ."""

from __future__ import annotations

import json
import shutil

import pytest
from draftgate.models.location import locate

pytestmark = pytest.mark.extended

PROFILE = """
acceptance_means_something = false
[target]
path = "target"
load_format = "random"
[drafts.shape]
path = "draft"
load_format = "random"
trained_on = [1, 3, 5]
[prompts]
path = "builtin:tiny"
[defaults]
devices = ["cpu"]
context_length = 1024
skip_tokenizer = true
max_running_requests = 8
[[servers]]
draft = "shape"
num_steps = 3
topk = 1
num_draft_tokens = 4
"""


def test_layers_of_random_weights_are_told_apart_by_value(run_pytest, tmp_path):
    for role, builtin in (("target", "tiny"), ("draft", "tiny-eagle3")):
        (tmp_path / role).mkdir()
        shutil.copy(locate(f"builtin:{builtin}").folder / "config.json", tmp_path / role)
    (tmp_path / "shape.toml").write_text(PROFILE)
    run = run_pytest(
        *("tests/suite", "-m", "cpu", "--dg-profiles", str(tmp_path / "shape.toml")),
        *("-k", "hidden_states or test_pair_and_flags_fit"),
    )
    assert run.code == 0, run.text
    (record,) = tmp_path.glob("artifacts/*/record.json")
    (server,) = json.loads(record.read_text())["servers"].values()
    (boot,) = server["boots"]
    assert boot["layers"]["fed"] == [1, 3, 5]
    assert boot["layers"]["distances"] == [0.0, 0.0, 0.0]
    assert boot["widths"]["fc_in"] == 192
