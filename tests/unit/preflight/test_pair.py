"""Every planted fault is named by its own rule; every healthy pair yields nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.models.checkpoint import read_checkpoint
from draftgate.models.location import locate
from draftgate.preflight.asked import asked_by_spec
from draftgate.preflight.case import Case
from draftgate.preflight.rules import judge
from packaging.version import Version

from tests import planted

SPECS = {spec.id: spec for spec in load_profiles()["tiny"].servers}
PLAIN, EMBED = SPECS["tiny/eagle3-s3k1d4/cpu"], SPECS["tiny/embed-s3k1d4/cpu"]


def folder(name: str) -> Path:
    found = locate(f"builtin:{name}").folder
    assert found is not None
    return found


def case(draft: Path, spec=PLAIN, version="0.5.23", matters=True, **changes) -> Case:
    """The built-in target with `draft`, whose provenance only its weights tell."""
    assert spec.speculation is not None
    unsaid = replace(spec.speculation, draft=replace(spec.speculation.draft, trained_on=None))
    asked = replace(spec, **{"speculation": unsaid, **changes})
    return Case(
        asked_by_spec(asked, Version(version), acceptance_matters=matters),
        Version(version),
        read_checkpoint(folder("tiny")),
        read_checkpoint(draft),
    )


def rules(*arguments, **changes) -> list[str]:
    return [finding.rule for finding in judge(case(*arguments, **changes))]


@pytest.mark.parametrize("server", [s for s in SPECS.values() if s.speculation], ids=lambda s: s.id)
def test_shipped_servers_are_right(server):
    name = server.speculation.draft.path.removeprefix("builtin:")
    assert rules(folder(name), spec=server) == []


@pytest.mark.parametrize("healthy", [planted.unchanged, planted.layer_ids_reordered])
def test_healthy_controls(tmp_path, healthy):
    assert rules(healthy(folder("tiny-eagle3"), tmp_path)) == []
    assert rules(healthy(folder("tiny-eagle3-embed"), tmp_path), spec=EMBED) == []


@pytest.mark.parametrize(
    ("fault", "rule", "words"),
    [
        (planted.layer_ids_later, "layers-moved", "on layers [1, 3, 5] and would be fed [2, 4, 6]"),
        (planted.layer_ids_earlier, "layers-moved", "would be fed [0, 2, 4]"),
        (planted.no_eagle_config, "layers-moved", "would be fed [1, 3, 4]"),
        (planted.d2t_shifted, "token-map", "d2t"),
        (planted.d2t_zeros, "token-map", "d2t disagrees with t2d"),
        (planted.d2t_absolute, "token-map", "d2t maps"),
        (planted.lm_head_removed, "lm-head", "no lm_head.weight"),
    ],
)
def test_planted_faults(tmp_path, fault, rule, words):
    findings = judge(case(fault(folder("tiny-eagle3"), tmp_path)))
    assert [finding.rule for finding in findings] == [rule]
    assert words in findings[0].message
    assert str(tmp_path) in findings[0].evidence


def test_the_embedding_draft_with_plain_ids(tmp_path):
    draft = planted.layer_ids_plain(folder("tiny-eagle3-embed"), tmp_path)
    (finding,) = judge(case(draft, spec=EMBED))
    assert finding.message == (
        "the draft was trained on layers [embedding, 1, 3] and would be fed [1, 3, 5]"
    )
    assert "ids [1, 3, 5]" in finding.evidence
    assert "[-1, 1, 3]" in finding.remedy


def test_ids_that_collide(tmp_path):
    draft = planted.unchanged(folder("tiny-eagle3"), tmp_path)
    config = json.loads((draft / "config.json").read_text())
    config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] = [3, 3, 5]
    (draft / "config.json").write_text(json.dumps(config))
    (finding,) = judge(case(draft))
    assert finding.rule == "layers-lost"
    assert "captures 2 layers [3, 5] of the 3 the draft needs" in finding.message


def test_the_embedding_draft_on_an_older_sglang():
    (finding,) = judge(case(folder("tiny-eagle3-embed"), spec=EMBED, version="0.5.16"))
    assert finding.rule == "layers-lost"
    assert "cannot hand over the embedding output" in finding.message
    assert finding.remedy.startswith("SGLang 0.5.22 or newer")


def test_a_folder_without_weights(tmp_path):
    draft = planted.unchanged(folder("tiny-eagle3"), tmp_path)
    (draft / "model.safetensors").unlink()
    (finding,) = judge(case(draft))
    assert finding.rule == "weights"
    assert finding.message == "the draft's folder holds no weights"


def test_eagle_for_an_eagle3_draft():
    speculation = replace(PLAIN.speculation, algorithm="EAGLE")
    (finding,) = judge(case(folder("tiny-eagle3"), speculation=speculation))
    assert finding.rule == "algorithm"
    assert "fc is skipped" in finding.message
    assert "EAGLE3" in finding.remedy


def test_simulated_acceptance():
    env = (("SGLANG_SIMULATE_ACC_LEN", "3.5"),)
    (finding,) = judge(case(folder("tiny-eagle3"), env=env))
    assert finding.rule == "simulated-acceptance"
    assert "SGLANG_SIMULATE_ACC_LEN=3.5" in finding.message
    assert judge(case(folder("tiny-eagle3"), env=env, matters=False)) == ()


def test_a_context_longer_than_the_draft():
    assert rules(folder("tiny-eagle3"), context_length=1025) == ["positions"]
    assert rules(folder("tiny-eagle3"), context_length=None) == []


def test_a_draft_of_another_target():
    kimi = replace(case(folder("tiny-eagle3")), target=read_checkpoint(folder("kimi-k25-shape")))
    found = {finding.rule for finding in judge(kimi)}
    assert {"target-width", "vocabulary"} <= found


def test_what_the_profile_says_wins_over_the_weights():
    told = replace(PLAIN.speculation, draft=replace(PLAIN.speculation.draft, trained_on=(2, 4, 6)))
    (finding,) = judge(case(folder("tiny-eagle3"), speculation=told))
    assert finding.rule == "layers-moved"
    assert "trained on: profile" in finding.evidence


def test_more_requests_measured_than_graphs_hold():
    graph = SPECS["tiny/eagle3-s3k1d4/graph"]
    more = replace(graph.throughput, concurrency=9)
    (finding,) = judge(case(folder("tiny-eagle3"), spec=graph, throughput=more))
    assert (finding.rule, finding.severity) == ("graph-batches", "error")
    assert (
        "9 requests are measured at once, and CUDA graphs are captured up to 8" in finding.message
    )
    eager = SPECS["tiny/eagle3-s3k1d4/eager"]
    assert judge(case(folder("tiny-eagle3"), spec=eager, throughput=more)) == ()


def test_arguments_of_the_profile_are_read_as_flags():
    args = ("--piecewise-cuda-graph-max-tokens", "8")
    (finding,) = judge(case(folder("tiny-eagle3"), args=args))
    assert finding.rule == "unknown-flag"
    assert finding.remedy == "write --cuda-graph-max-bs-prefill"
    assert judge(case(folder("tiny-eagle3"), args=args, version="0.5.19")) == ()


def test_a_profile_abbreviates_nothing():
    (finding,) = judge(case(folder("tiny-eagle3"), args=("--disable-radix-cach",)))
    assert (finding.rule, finding.severity) == ("unknown-flag", "error")
    assert finding.remedy == "write --disable-radix-cache"


def test_a_flag_that_a_key_owns_is_not_advised_to_a_profile():
    (finding,) = judge(case(folder("tiny-eagle3"), args=("--mem-fraction-statics", "0.3")))
    assert finding.rule == "unknown-flag"
    assert finding.remedy == "use the key 'mem_fraction_static'"


def test_a_newer_sglang_is_judged_without_its_options():
    assert judge(case(folder("tiny-eagle3"), args=("--new-flag",), version="0.6.0")) == ()
