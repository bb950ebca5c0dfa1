from __future__ import annotations

import pytest
from draftgate.catalog.spec import EMBEDDING
from draftgate.preflight.capture import (
    FINAL_NORM,
    captured_layers,
    captures_embedding,
    name_layers,
)
from packaging.version import Version


@pytest.mark.parametrize(
    ("architecture", "version", "layers", "ids", "captured"),
    [
        # Llama and Qwen3: id k is the output of layer k, in every version.
        ("LlamaForCausalLM", "0.5.10", 8, [1, 3, 5], (1, 3, 5)),
        ("LlamaForCausalLM", "0.5.23", 8, [5, 1, 3], (1, 3, 5)),
        ("Qwen3ForCausalLM", "0.5.23", 36, [1, 17, 32], (1, 17, 32)),
        ("LlamaForCausalLM", "0.5.23", 8, [-1, 1, 3], (-1, 1, 3)),
        ("LlamaForCausalLM", "0.5.23", 8, [3, 5, 7], (3, 5)),  # the last layer is never reached
        ("LlamaForCausalLM", "0.5.23", 8, [3, 5, 5], (3, 5)),
        ("LlamaForCausalLM", "0.5.23", 8, [-2, 1, 3], (1, 3)),
        # The default: inputs of layers 2, n // 2, n - 3.
        ("LlamaForCausalLM", "0.5.23", 32, None, (1, 15, 28)),
        ("LlamaForCausalLM", "0.5.23", 6, None, (1, 2)),  # [2, 3, 3] collides
        ("Qwen3ForCausalLM", "0.5.23", 36, None, (1, 17, 32)),
        # DeepSeek: every id + 1 up to 0.5.10, then as they stand unless the first is 1.
        ("DeepseekV3ForCausalLM", "0.5.10", 61, [2, 30, 58], (2, 30, 58)),
        ("DeepseekV3ForCausalLM", "0.5.13", 61, [2, 30, 58], (1, 29, 57)),
        ("KimiK25ForConditionalGeneration", "0.5.16", 61, [1, 29, 57], (1, 29, 57)),
        ("KimiK25ForConditionalGeneration", "0.5.16", 61, [-1, 2, 30], (1, 29)),
        ("DeepseekV3ForCausalLM", "0.5.23", 61, None, (1, 29, 57)),
        # gpt-oss: ids that hold the final boundary stand as they are.
        ("GptOssForCausalLM", "0.5.23", 36, [24, 30, 36], (23, 29, 35)),
        ("GptOssForCausalLM", "0.5.23", 36, [23, 29, 34], (23, 29, 34)),
        ("GptOssForCausalLM", "0.5.16", 36, [24, 30, 36], (24, 30)),  # sglang issue 32226
        ("SomethingNew", "0.5.23", 36, [1, 2, 3], None),
    ],
)
def test_captured_layers(architecture, version, layers, ids, captured):
    assert captured_layers(architecture, Version(version), layers, ids) == captured


@pytest.mark.parametrize(
    ("architecture", "version", "can"),
    [
        ("LlamaForCausalLM", "0.5.16", False),  # seen on a GPU: Tensor + NoneType
        ("LlamaForCausalLM", "0.5.21", False),
        ("LlamaForCausalLM", "0.5.22", True),
        ("LlamaForCausalLM", "0.5.23", True),  # seen on a CPU
        ("Qwen3ForCausalLM", "0.5.10", True),
        ("DeepseekV3ForCausalLM", "0.5.10", False),
        ("DeepseekV3ForCausalLM", "0.5.23", True),
        ("SomethingNew", "0.5.10", True),
    ],
)
def test_who_hands_over_the_embedding(architecture, version, can):
    assert captures_embedding(architecture, Version(version)) is can


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "Qwen3MoeForCausalLM"])
@pytest.mark.parametrize("version", ["0.5.10", "0.5.23"])
@pytest.mark.parametrize("layers", [8, 36, 61, 94])
def test_no_ids_are_the_default_layers_named_by_output(architecture, version, layers):
    default = [1, layers // 2 - 1, layers - 4]
    without = captured_layers(architecture, Version(version), layers, None)
    assert captured_layers(architecture, Version(version), layers, default) == without


def test_names():
    assert name_layers((EMBEDDING, 0, 58, FINAL_NORM, None)) == "[embedding, 0, 58, final norm, ?]"
