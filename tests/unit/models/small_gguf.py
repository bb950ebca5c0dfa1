"""A Llama of one layer with a byte-level tokenizer, as llama.cpp would convert and quantize it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from draftgate.models.gguf_llama import convert
from gguf import GGMLQuantizationType, GGUFWriter, quants

HIDDEN, HEADS, KV_HEADS, INNER = 64, 4, 2, 96
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "Ġ hell"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"

Weights = dict[str, np.ndarray]


def tokens() -> list[str]:
    """Special tokens, the 256 characters that stand for bytes, and what the merges make."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [256 + place for place in range(256 - len(printable))]
    return [*SPECIAL, *map(chr, printable + others), *(m.replace(" ", "") for m in MERGES)]


def weights(seed: int = 0) -> Weights:
    """By the names and in the row order of a Hugging Face checkpoint, float32."""
    rng = np.random.default_rng(seed)
    head = HIDDEN // HEADS
    shapes = {
        "model.embed_tokens.weight": (len(tokens()), HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "model.layers.0.input_layernorm.weight": (HIDDEN,),
        "model.layers.0.post_attention_layernorm.weight": (HIDDEN,),
        "model.layers.0.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        "model.layers.0.self_attn.k_proj.weight": (KV_HEADS * head, HIDDEN),
        "model.layers.0.self_attn.v_proj.weight": (KV_HEADS * head, HIDDEN),
        "model.layers.0.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        "model.layers.0.mlp.gate_proj.weight": (INNER, HIDDEN),
        "model.layers.0.mlp.up_proj.weight": (INNER, HIDDEN),
        "model.layers.0.mlp.down_proj.weight": (HIDDEN, INNER),
    }
    return {n: rng.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}


NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "model.layers.0.input_layernorm.weight": "blk.0.attn_norm.weight",
    "model.layers.0.post_attention_layernorm.weight": "blk.0.ffn_norm.weight",
    "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
    "model.layers.0.self_attn.k_proj.weight": "blk.0.attn_k.weight",
    "model.layers.0.self_attn.v_proj.weight": "blk.0.attn_v.weight",
    "model.layers.0.self_attn.o_proj.weight": "blk.0.attn_output.weight",
    "model.layers.0.mlp.gate_proj.weight": "blk.0.ffn_gate.weight",
    "model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight",
    "model.layers.0.mlp.down_proj.weight": "blk.0.ffn_down.weight",
}


def permuted(matrix: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's row order: ``LlamaModel.permute`` of its convert_hf_to_gguf.py."""
    rows, columns = matrix.shape
    halves = matrix.reshape(heads, 2, rows // heads // 2, columns)
    return halves.swapaxes(1, 2).reshape(rows, columns)


def write_gguf(
    file: Path, given: Weights, *, architecture: str = "llama", pre: str = "smollm"
) -> None:
    """Matrices in Q4_1, the embedding in Q8_0, norms in F32."""
    writer = GGUFWriter(file, architecture)
    writer.add_block_count(1)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(1e5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens())
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens()) - len(SPECIAL)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, values in given.items():
        rows = values
        if "q_proj" in name or "k_proj" in name:
            rows = permuted(values, HEADS if "q_proj" in name else KV_HEADS)
        kind = quantization(name)
        writer.add_tensor(NAMES[name], quants.quantize(rows, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantization(name: str) -> GGMLQuantizationType:
    if "norm" in name:
        return GGMLQuantizationType.F32
    return GGMLQuantizationType.Q8_0 if "embed" in name else GGMLQuantizationType.Q4_1


def converted(made: Path) -> Path:
    """Its Llama folder, made in `made` beside the GGUF file."""
    write_gguf(made / "small.gguf", weights())
    convert(made / "small.gguf", made / "model")
    return made / "model"
