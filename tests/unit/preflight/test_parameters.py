"""The table of a draft's parameters against what a real server built.

`BUILT` is `named_parameters()` of `LlamaForCausalLMEagle3` in a real SGLang 0.5.23 (CPU engine),
for a draft of two layers and five states with every norm and bias that its config can ask for.
"""

from __future__ import annotations

import pytest
from draftgate.preflight.parameters import LLAMA, MLA, canonical_names, is_known, parameters
from packaging.version import Version

CONFIG = {
    "hidden_size": 64,
    "vocab_size": 128,
    "draft_vocab_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 256,
    "attention_bias": True,
    "bias": True,
    "fc_norm": True,
    "norm_output": True,
    "eagle_config": {
        "norm_before_fc": True,
        "eagle_aux_hidden_state_layer_ids": [1, 2, 3, 4, 5],
    },
}
BUILT = {
    "model.embed_tokens.weight": (128, 64),
    "model.fc.weight": (64, 320),
    "model.fc.bias": (64,),
    "model.input_norm.weight": (320,),
    "model.fc_norm.0.weight": (64,),
    "model.fc_norm.1.weight": (64,),
    "model.fc_norm.2.weight": (64,),
    "model.fc_norm.3.weight": (64,),
    "model.fc_norm.4.weight": (64,),
    "model.layers.0.self_attn.qkv_proj.weight": (128, 128),
    "model.layers.0.self_attn.o_proj.weight": (64, 64),
    "model.layers.0.self_attn.o_proj.bias": (64,),
    "model.layers.0.mlp.gate_up_proj.weight": (512, 64),
    "model.layers.0.mlp.down_proj.weight": (64, 256),
    "model.layers.0.input_layernorm.weight": (64,),
    "model.layers.0.post_attention_layernorm.weight": (64,),
    "model.layers.0.hidden_norm.weight": (64,),
    "model.layers.1.self_attn.qkv_proj.weight": (128, 64),
    "model.layers.1.self_attn.o_proj.weight": (64, 64),
    "model.layers.1.self_attn.o_proj.bias": (64,),
    "model.layers.1.mlp.gate_up_proj.weight": (512, 64),
    "model.layers.1.mlp.down_proj.weight": (64, 256),
    "model.layers.1.input_layernorm.weight": (64,),
    "model.layers.1.post_attention_layernorm.weight": (64,),
    "model.layers.1.hidden_norm.weight": (64,),
    "model.norm.weight": (64,),
    "lm_head.weight": (64, 64),
}
HEAD_ROWS_PADDED_TO = 64
V23 = Version("0.5.23")


def test_the_table_names_what_a_server_built():
    built = {part for name in BUILT for part in canonical_names(name, LLAMA, V23)}
    assert built == set(parameters(CONFIG, LLAMA, V23))


def test_the_table_has_the_shapes_that_a_server_built():
    expected = parameters(CONFIG, LLAMA, V23)
    for name, shape in BUILT.items():
        parts = [expected[part] for part in canonical_names(name, LLAMA, V23)]
        rows = sum(part[0] or 0 for part in parts)
        if name == "lm_head.weight":
            rows += -rows % HEAD_ROWS_PADDED_TO
        assert (rows, *parts[0][1:]) == shape, name


@pytest.mark.parametrize(
    ("name", "version", "canonical"),
    [
        ("midlayer.mlp.up_proj.weight", "0.5.12", ("layers.0.mlp.up_proj.weight",)),
        ("midlayer.mlp.up_proj.weight", "0.5.11", ("midlayer.mlp.up_proj.weight",)),
        ("model.norm.weight", "0.5.10", ("norm.weight",)),
        ("model.lm_head.weight", "0.5.23", ("model.lm_head.weight",)),
        ("aux_norm_mid.weight", "0.5.12", ("fc_norm.1.weight",)),
        ("model.d2t", "0.5.23", ()),
        ("t2d", "0.5.23", ()),
    ],
)
def test_names(name, version, canonical):
    assert canonical_names(name, LLAMA, Version(version)) == canonical


def test_a_draft_with_mla_takes_no_leading_model():
    assert canonical_names("model.fc.weight", MLA, V23) == ("model.fc.weight",)
    assert canonical_names("midlayer.mlp.up_proj.weight", MLA, V23) == (
        "layers.0.mlp.up_proj.weight",
    )


def test_the_classes_of_each_release():
    assert is_known(LLAMA, Version("0.5.10"))
    assert not is_known(MLA, Version("0.5.11"))
    assert is_known(MLA, Version("0.5.12"))
    assert not is_known(None, V23)
