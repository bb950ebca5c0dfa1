"""Pairs as they are published, the edits that spoil them, and the findings on one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from draftgate.preflight.case import Finding
from draftgate.preflight.lint import lint_pair
from draftgate.preflight.rules import judge
from packaging.version import Version

from tests.unit.preflight.checkpoints import LAYER_IDS, Model, llama_draft, target

TOLD = (
    "--speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --context-length 2048"
)
LLAMA_8B = target("LlamaForCausalLM", 32, 4096, 128256, max_position_embeddings=131072)
LLAMA_70B = target("LlamaForCausalLM", 80, 8192, 128256)
QWEN3_8B = target("Qwen3ForCausalLM", 36, 4096, 151936, max_position_embeddings=40960)
QWEN3_MOE = target("Qwen3MoeForCausalLM", 48, 2048, 151936)
GPT_OSS = target("GptOssForCausalLM", 36, 2880, 201088, max_position_embeddings=131072)
DEEPSEEK = target("DeepseekV3ForCausalLM", 61, 7168, 129280)
KIMI_TEXT = target("DeepseekV3ForCausalLM", 61, 7168, 163840)
KIMI = Model(
    {
        "architectures": ["KimiK25ForConditionalGeneration"],
        "text_config": {**KIMI_TEXT.config, "max_position_embeddings": 262144},
    },
    KIMI_TEXT.shapes,
)


def llama_8b(**changes: Any) -> Model:
    """As lmsys/sglang-EAGLE3-LLaMA3.1-Instruct-8B: no layer ids, 2048 positions."""
    return llama_draft(4096, 128256, **{"max_position_embeddings": 2048, **changes})


def gpt_oss_v3(**changes: Any) -> Model:
    """As nvidia/gpt-oss-120b-Eagle3-v3: the final layer among the states, a norm before fc."""
    draft = llama_draft(2880, 201088, draft_vocab=201088, ids=[24, 30, 36], **changes)
    draft.config["eagle_config"]["norm_before_fc"] = True
    draft.shapes["input_norm.weight"] = (3 * 2880,)
    return draft


def own_embedding() -> Model:
    """A draft narrower than its target, which therefore has an embedding of its own."""
    draft = llama_draft(6144, 128256, target_hidden=8192)
    draft.shapes["embed_tokens.weight"] = (128256, 6144)
    return draft


def norm_per_state() -> Model:
    draft = llama_draft(4096, 151936, ids=[1, 17, 32], fc_norm=True, first_layer="layers.0")
    return with_shapes(draft, {f"fc_norm.{state}.weight": (4096,) for state in range(3)})


def with_shapes(draft: Model, shapes: dict[str, tuple[int, ...]]) -> Model:
    draft.shapes |= shapes
    return draft


def config(**changes: Any) -> Callable[[Model], None]:
    return lambda draft: draft.config.update(changes)


def eagle_config(**changes: Any) -> Callable[[Model], None]:
    return lambda draft: draft.config.setdefault("eagle_config", {}).update(changes)


def without(*names: str) -> Callable[[Model], None]:
    return lambda draft: [draft.shapes.pop(name) for name in names]  # type: ignore[return-value]


def ids(*layers: int) -> Callable[[Model], None]:
    return eagle_config(**{LAYER_IDS: list(layers)})


def shape(name: str, *extents: int) -> Callable[[Model], None]:
    return lambda draft: draft.shapes.update({name: extents})


def values(name: str, change: Callable[[list[int]], list[int]]) -> Callable[[Model], None]:
    return lambda draft: draft.values.update({name: change(draft.values[name])})


def qwen3(**changes: Any) -> Model:
    return llama_draft(4096, 151936, **{"ids": [1, 17, 32], **changes})


def kimi(**changes: Any) -> Model:
    return llama_draft(7168, 163840, **{"ids": [1, 29, 57], **changes})


def told(flags: str) -> str:
    return f"{TOLD} {flags}"


def fused(draft: Model) -> None:
    for whole, parts in {"self_attn.qkv_proj": "qkv", "mlp.gate_up_proj": ("gate", "up")}.items():
        room = whole.split(".")[0]
        split = [draft.shapes.pop(f"midlayer.{room}.{part}_proj.weight") for part in parts]
        rows = sum(shape[0] for shape in split)
        draft.shapes[f"midlayer.{whole}.weight"] = (rows, split[0][1])


def prefixed(draft: Model) -> None:
    for name in [name for name in draft.shapes if name != "lm_head.weight"]:
        draft.shapes[f"model.{name}"] = draft.shapes.pop(name)


def quantized(draft: Model) -> None:
    draft.config["quantization_config"] = {"quant_method": "fp8"}
    draft.shapes["midlayer.mlp.up_proj.weight_scale"] = (1,)


def trained_on(draft: Model, layers: list[int]) -> Model:
    draft.metadata["eagle3.trained_on_layers"] = json.dumps(layers)
    return draft


def findings(
    folder: Path,
    served: Model,
    draft: Model,
    version: str,
    flags: str | None,
    environment: Mapping[str, str] = {},
) -> list[Finding]:
    case = lint_pair(
        str(served.write(folder / "target")),
        str(draft.write(folder / "draft")),
        Version(version),
        None if flags is None else flags.split(),
        environment,
    )
    return list(judge(case))


def alarms(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.severity != "info"]


def nothing_left(draft: Model) -> None:
    draft.shapes.clear()
    draft.values.clear()
