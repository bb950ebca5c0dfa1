from __future__ import annotations

import json
from pathlib import Path

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.gate.flags import cuda_graphs_on, judge_algorithm, judge_flags
from draftgate.measure.verdict import Status

from tests.specs import spec_of

SPECS = {spec.id: spec for spec in load_profiles()["tiny"].servers}
RECORDED = json.loads((Path(__file__).parent / "server_info-0.5.23-cpu.json").read_text())
"""A real reply of a 0.5.23 CPU server started with EAGLE3, 3/1/4."""


def info(**changes: object) -> dict[str, object]:
    return {**RECORDED, **changes}


def judge(reply, spec="tiny/eagle3-s3k1d4/cpu"):
    return judge_flags(
        SPECS[spec],
        reply,
        target_path=RECORDED["model_path"],
        draft_path=RECORDED["speculative_draft_model_path"],
    )


def test_a_real_reply_that_is_right():
    assert judge(info(context_length=1024, max_running_requests=8)).status is Status.PASS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"speculative_num_steps": 2}, "speculative_num_steps: asked for 3, the server runs 2"),
        ({"speculative_eagle_topk": 4}, "speculative_eagle_topk: asked for 1"),
        ({"speculative_num_draft_tokens": 3}, "speculative_num_draft_tokens: asked for 4"),
        ({"speculative_algorithm": "EAGLE"}, "asked for 'EAGLE3', the server runs 'EAGLE'"),
        ({"speculative_draft_model_path": "other"}, "speculative_draft_model_path"),
        ({"model_path": "other"}, "model_path"),
        ({"tp_size": 2}, "tp_size: asked for 1, the server runs 2"),
        ({"max_running_requests": 48}, "max_running_requests: asked for 8, the server runs 48"),
    ],
)
def test_every_adjusted_value_names_both(changes, words):
    verdict = judge(info(**{"context_length": 1024, "max_running_requests": 8, **changes}))
    assert verdict.status is Status.FAIL
    assert len(verdict.reasons) == 1
    assert words in verdict.reasons[0]


def test_a_missing_key_fails():
    reply = info(context_length=1024, max_running_requests=8)
    del reply["speculative_num_steps"]
    assert judge(reply).reasons == (
        "speculative_num_steps: asked for 3, the server runs no such key in /server_info",
    )


def test_no_speculation_asked_and_speculation_served():
    reply = info(context_length=1024, max_running_requests=8)
    assert "speculative_algorithm: asked for None" in judge(reply, "tiny/none/cpu").reasons[0]


@pytest.mark.parametrize(
    ("reply", "on"),
    [
        ({"disable_cuda_graph": True}, False),
        ({"disable_cuda_graph": False}, True),
        ({"disable_cuda_graph": False, "cuda_graph_config": {"decode": {"backend": "full"}}}, True),
        (
            {"disable_cuda_graph": False, "cuda_graph_config": {"decode": {"backend": "disabled"}}},
            False,
        ),
        ({}, None),
    ],
)
def test_where_servers_say_that_graphs_are_on(reply, on):
    assert cuda_graphs_on(reply) is on


def test_graphs_off_where_on_was_asked():
    spec = "tiny/eagle3-s3k1d4/graph"
    right = info(
        context_length=1024,
        max_running_requests=8,
        attention_backend="triton",
        mem_fraction_static=0.3,
    )
    assert judge(right, spec).status is Status.PASS
    off = judge({**right, "cuda_graph_config": None, "disable_cuda_graph": True}, spec)
    assert off.reasons == ("CUDA graphs for decoding: asked for on, the server runs with them off",)


def test_an_eagle3_draft_served_as_eagle():
    verdict = judge_algorithm(["LlamaForCausalLMEagle3"], {"speculative_algorithm": "EAGLE"})
    assert verdict.status is Status.FAIL
    assert "fc is skipped" in verdict.reasons[0]
    assert 'algorithm = "EAGLE3"' in verdict.reasons[0]
    right = judge_algorithm(["LlamaForCausalLMEagle3"], {"speculative_algorithm": "EAGLE3"})
    assert right.status is Status.PASS
    assert not judge_algorithm(
        ["LlamaForCausalLMEagle"], {"speculative_algorithm": "EAGLE"}
    ).status.red


@pytest.mark.parametrize("said", [{"dp_size": 2}, {"dp_size": 1, "attn_dp_size": 2}])
def test_dp_attention_by_the_names_of_each_release(said):
    """0.5.22 moved the number of ranks to a name of its own."""
    asked = spec_of(tp=2, dp=2, args=("--enable-dp-attention",), speculation=None, device="cpu")
    reply = {"model_path": "m", "tp_size": 2, "nnodes": 1, "speculative_algorithm": None, **said}
    assert judge_flags(asked, reply, target_path="m", draft_path=None).status is Status.PASS
    verdict = judge_flags(asked, {**reply, "dp_size": 4}, target_path="m", draft_path=None)
    assert verdict.status is Status.FAIL
    assert "dp_size: asked for 2, the server runs" in verdict.reasons[0]
