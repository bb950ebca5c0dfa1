"""Model folders of real shapes and no size: headers are whole, the data behind them are holes.

The names of the drafts' tensors are those of published checkpoints (`midlayer.*` of SpecForge and
EAGLE, `layers.0.*` of later exports), written out here and not taken from the code under test.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

BYTES = {"BF16": 2, "I64": 8, "BOOL": 1}
LAYER_IDS = "eagle_aux_hidden_state_layer_ids"

Shapes = dict[str, tuple[int, ...]]


@dataclass
class Model:
    """One folder to write: `values` are the integers of tensors that are not BF16 holes."""

    config: dict[str, Any]
    shapes: Shapes
    values: dict[str, list[int]] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path, shards: int = 1) -> Path:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        names = [*self.shapes, *self.values]
        if shards == 1:
            self._write_file(folder / "model.safetensors", names)
            return folder
        weight_map = {}
        for shard in range(shards):
            file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
            self._write_file(folder / file, names[shard::shards])
            weight_map.update(dict.fromkeys(names[shard::shards], file))
        index = {"metadata": {}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder

    def _write_file(self, file: Path, names: list[str]) -> None:
        header: dict[str, Any] = {"__metadata__": self.metadata} if self.metadata else {}
        end = 0
        for name in names:
            dtype, shape = self._kind(name)
            first, end = end, end + prod(shape) * BYTES[dtype]
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [first, end]}
        encoded = json.dumps(header).encode()
        start = 8 + len(encoded)
        with file.open("wb") as stream:
            stream.write(struct.pack("<Q", len(encoded)) + encoded)
            stream.truncate(start + end)
            for name in (name for name in names if name in self.values):
                stream.seek(start + header[name]["data_offsets"][0])
                code = "?" if header[name]["dtype"] == "BOOL" else "q"
                stream.write(struct.pack(f"<{len(self.values[name])}{code}", *self.values[name]))

    def _kind(self, name: str) -> tuple[str, list[int]]:
        if name in self.values:
            return ("BOOL" if "t2d" in name else "I64"), [len(self.values[name])]
        return "BF16", list(self.shapes[name])


def target(architecture: str, layers: int, hidden: int, vocab: int, **config: Any) -> Model:
    """A target: enough of it to look like one."""
    config = {
        "architectures": [architecture],
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "vocab_size": vocab,
        "max_position_embeddings": 32768,
        **config,
    }
    shapes: Shapes = {
        "model.embed_tokens.weight": (vocab, hidden),
        "lm_head.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
    }
    for layer in range(layers):
        shapes[f"model.layers.{layer}.mlp.experts.weight"] = (256, hidden, 3 * 768)
    return Model(config, shapes)


def llama_draft(
    hidden: int,
    vocab: int,
    *,
    draft_vocab: int | None = 32000,
    ids: list[int] | None = None,
    states: int = 3,
    target_hidden: int | None = None,
    layers: int = 1,
    first_layer: str = "midlayer",
    **config: Any,
) -> Model:
    """A Llama-Eagle3 draft with grouped heads of 128."""
    heads, kv_heads, inner = hidden // 64, 8, 3 * hidden
    full: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": hidden,
        "vocab_size": vocab,
        "draft_vocab_size": draft_vocab,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": 128,
        "intermediate_size": inner,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
    }
    if ids is not None:
        full["eagle_config"] = {"use_aux_hidden_state": True, LAYER_IDS: ids}
    if target_hidden is not None:
        full["target_hidden_size"] = target_hidden
    shapes: Shapes = {
        "fc.weight": (hidden, states * (target_hidden or hidden)),
        "norm.weight": (hidden,),
    }
    for layer in range(layers):
        prefix = first_layer if layer == 0 else f"layers.{layer}"
        fed = 2 * hidden if layer == 0 else hidden
        shapes |= {
            f"{prefix}.self_attn.q_proj.weight": (heads * 128, fed),
            f"{prefix}.self_attn.k_proj.weight": (kv_heads * 128, fed),
            f"{prefix}.self_attn.v_proj.weight": (kv_heads * 128, fed),
            f"{prefix}.self_attn.o_proj.weight": (hidden, heads * 128),
            f"{prefix}.mlp.gate_proj.weight": (inner, hidden),
            f"{prefix}.mlp.up_proj.weight": (inner, hidden),
            f"{prefix}.mlp.down_proj.weight": (hidden, inner),
            f"{prefix}.input_layernorm.weight": (hidden,),
            f"{prefix}.hidden_norm.weight": (hidden,),
            f"{prefix}.post_attention_layernorm.weight": (hidden,),
        }
    if draft_vocab is not None:
        shapes["lm_head.weight"] = (draft_vocab, hidden)
    pruned = draft_vocab is not None and draft_vocab < vocab
    return Model(full | config, shapes, token_map(draft_vocab or 0, vocab) if pruned else {})


def mla_draft(hidden: int, vocab: int, *, ids: list[int], **config: Any) -> Model:
    """A draft with multi-latent attention and a norm per state, as kimi-k2.6-eagle3.1-mla."""
    full: dict[str, Any] = {
        "architectures": ["Eagle3DeepseekV2ForCausalLM"],
        "model_type": "kimi_k2",
        "hidden_size": hidden,
        "vocab_size": vocab,
        "draft_vocab_size": 32000,
        "num_hidden_layers": 1,
        "num_attention_heads": 64,
        "intermediate_size": 18432,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "max_position_embeddings": 262144,
        "tie_word_embeddings": False,
        "fc_norm": True,
        "norm_output": True,
        "eagle_config": {LAYER_IDS: ids},
    }
    shapes: Shapes = {
        "embed_tokens.weight": (vocab, hidden),
        "fc.weight": (hidden, 3 * hidden),
        "fc_norm.0.weight": (hidden,),
        "fc_norm.1.weight": (hidden,),
        "fc_norm.2.weight": (hidden,),
        "layers.0.self_attn.q_a_proj.weight": (1536, 2 * hidden),
        "layers.0.self_attn.q_a_layernorm.weight": (1536,),
        "layers.0.self_attn.q_b_proj.weight": (64 * 192, 1536),
        "layers.0.self_attn.kv_a_proj_with_mqa.weight": (576, 2 * hidden),
        "layers.0.self_attn.kv_a_layernorm.weight": (512,),
        "layers.0.self_attn.kv_b_proj.weight": (64 * 256, 512),
        "layers.0.self_attn.o_proj.weight": (hidden, 64 * 128),
        "layers.0.mlp.gate_proj.weight": (18432, hidden),
        "layers.0.mlp.up_proj.weight": (18432, hidden),
        "layers.0.mlp.down_proj.weight": (hidden, 18432),
        "layers.0.input_layernorm.weight": (hidden,),
        "layers.0.hidden_norm.weight": (hidden,),
        "layers.0.post_attention_layernorm.weight": (hidden,),
        "norm.weight": (hidden,),
        "lm_head.weight": (32000, hidden),
    }
    return Model(full | config, shapes, token_map(32000, vocab))


def token_map(draft_vocab: int, vocab: int) -> dict[str, list[int]]:
    """d2t as offsets and t2d as marks, for a draft of tokens spread over the vocabulary."""
    used = list(spread(draft_vocab, vocab))
    marks = [0] * vocab
    for token in used:
        marks[token] = 1
    return {"d2t": [token - index for index, token in enumerate(used)], "t2d": marks}


def spread(draft_vocab: int, vocab: int) -> Iterator[int]:
    return (index * vocab // draft_vocab for index in range(draft_vocab))
