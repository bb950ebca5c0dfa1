"""What is right is silent: published shapes, and the right side of every rule's edge."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.preflight.checkpoints import LAYER_IDS, Model, llama_draft, mla_draft, target
from tests.unit.preflight.pairs import (
    DEEPSEEK,
    GPT_OSS,
    KIMI,
    LLAMA_8B,
    LLAMA_70B,
    QWEN3_8B,
    QWEN3_MOE,
    TOLD,
    alarms,
    config,
    findings,
    fused,
    gpt_oss_v3,
    ids,
    llama_8b,
    norm_per_state,
    own_embedding,
    prefixed,
    quantized,
    qwen3,
    shape,
    told,
    trained_on,
)

HEALTHY: dict[str, tuple[Model, Callable[[], Model], str]] = {
    "llama": (LLAMA_8B, llama_8b, "0.5.10"),
    "llama, later names": (LLAMA_8B, lambda: llama_8b(first_layer="layers.0"), "0.5.23"),
    "qwen3": (QWEN3_8B, lambda: llama_draft(4096, 151936, ids=[1, 17, 32]), "0.5.23"),
    "qwen3 moe, other ids": (
        QWEN3_MOE,
        lambda: llama_draft(2048, 151936, ids=[5, 20, 44]),
        "0.5.11",
    ),
    "norm per state": (QWEN3_8B, norm_per_state, "0.5.12"),
    "gpt-oss v3": (GPT_OSS, gpt_oss_v3, "0.5.17"),
    "gpt-oss, borrowed head": (
        GPT_OSS,
        lambda: llama_draft(2880, 201088, draft_vocab=None, ids=[1, 17, 32]),
        "0.5.23",
    ),
    "deepseek, default layers": (DEEPSEEK, lambda: llama_draft(7168, 129280), "0.5.16"),
    "kimi": (KIMI, lambda: llama_draft(7168, 163840, ids=[1, 29, 57]), "0.5.16"),
    "kimi, mla": (KIMI, lambda: mla_draft(7168, 163840, ids=[1, 29, 57]), "0.5.13"),
    "target_hidden_size": (LLAMA_70B, own_embedding, "0.5.23"),
    "five states": (
        QWEN3_8B,
        lambda: llama_draft(4096, 151936, ids=[1, 9, 17, 25, 32], states=5),
        "0.5.12",
    ),
    "two states, two layers": (
        QWEN3_8B,
        lambda: llama_draft(4096, 151936, ids=[9, 25], states=2, layers=2),
        "0.5.23",
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_pair_yields_nothing_at_all(tmp_path, name):
    served, draft, version = HEALTHY[name]
    assert findings(tmp_path, served, draft(), version, TOLD) == []


@pytest.mark.parametrize("name", HEALTHY)
def test_files_alone_yield_no_error_and_no_warning(tmp_path, name):
    served, draft, version = HEALTHY[name]
    assert alarms(findings(tmp_path, served, draft(), version, None)) == []


def nothing(draft: Model) -> None:
    pass


SILENT: dict[str, tuple[Callable[[Model], object], str, str, dict[str, str]]] = {
    "ids in another order": (ids(32, 1, 17), TOLD, "0.5.23", {}),
    "the number of states said twice": (config(num_aux_hidden_states=3), TOLD, "0.5.23", {}),
    "ids at the top level too": (config(**{LAYER_IDS: [9, 9, 9]}), TOLD, "0.5.23", {}),
    "ids that graphs of 0.5.10 have by default": (nothing, TOLD, "0.5.10", {}),
    "other ids without graphs": (ids(5, 17, 28), told("--disable-cuda-graph"), "0.5.10", {}),
    "trained on what it is fed": (lambda d: trained_on(d, [1, 17, 32]), TOLD, "0.5.23", {}),
    "fused projections": (fused, TOLD, "0.5.23", {}),
    "names with model.": (prefixed, TOLD, "0.5.23", {}),
    "a computed table": (shape("midlayer.self_attn.rotary_emb.inv_freq", 64), TOLD, "0.5.23", {}),
    "an embedding that is replaced": (
        shape("embed_tokens.weight", 151936, 4096),
        TOLD,
        "0.5.10",
        {},
    ),
    "packed weights": (quantized, TOLD, "0.5.23", {}),
    "d2t without t2d": (lambda d: d.values.pop("t2d"), TOLD, "0.5.23", {}),
    "norm flags that are off": (config(norm_output=False, fc_norm=None), TOLD, "0.5.10", {}),
    "the old graph flag in its time": (
        nothing,
        told("--cuda-graph-max-bs 64 --max-running-requests 64"),
        "0.5.13",
        {},
    ),
    "the new graph flag": (
        nothing,
        told("--cuda-graph-max-bs-decode 64 --max-running-requests 8"),
        "0.5.14",
        {},
    ),
    "more requests than graphs, without graphs": (
        nothing,
        told("--cuda-graph-max-bs-decode 2 --cuda-graph-backend-decode disabled"),
        "0.5.23",
        {},
    ),
    "values with =": (nothing, TOLD.replace(" 2048", "=2048"), "0.5.23", {}),
    "the tokens of a chain left out": (
        nothing,
        TOLD.replace("--speculative-num-draft-tokens 4", ""),
        "0.5.23",
        {},
    ),
    "a tree": (nothing, TOLD.replace("topk 1", "topk 4").replace("s 4", "s 16"), "0.5.23", {}),
    "pages in a tree": (
        nothing,
        told("--attention-backend triton --page-size 64").replace("topk 1", "topk 4"),
        "0.5.13",
        {},
    ),
    "a chain on trtllm_mha": (nothing, told("--attention-backend trtllm_mha"), "0.5.23", {}),
    "mixed chunks": (nothing, told("--enable-mixed-chunk"), "0.5.19", {}),
    "the algorithm in lower case": (nothing, TOLD.replace("EAGLE3", "eagle3"), "0.5.12", {}),
    "the full context of the target": (nothing, TOLD.split(" --context")[0], "0.5.23", {}),
    "positions stretched by a factor": (
        config(max_position_embeddings=2048, rope_scaling={"rope_type": "linear", "factor": 16}),
        TOLD.replace("2048", "32768"),
        "0.5.23",
        {},
    ),
    "variables that are off": (nothing, TOLD, "0.5.23", {"SGLANG_IS_IN_CI": "false"}),
    "an overlooked context that fits": (
        nothing,
        TOLD,
        "0.5.23",
        {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_healthy_values_are_silent(tmp_path, name):
    edit, flags, version, environment = SILENT[name]
    served = target("Qwen3ForCausalLM", 36, 4096, 151936)
    draft = qwen3()
    edit(draft)
    assert alarms(findings(tmp_path, served, draft, version, flags, environment)) == []
