"""A GGUF file becomes a Llama folder: the right rows, the right rounding, the right tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from draftgate.errors import ModelError
from draftgate.models.gguf_llama import convert

from tests.unit.models import small_gguf as small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.converted(tmp_path_factory.mktemp("gguf"))


def test_every_weight_is_the_dequantized_one_in_its_own_row(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    from gguf import quants
    from safetensors.torch import load_file

    found = load_file(folder / "model.safetensors")
    assert set(found) == set(small.weights())
    for name, values in small.weights().items():
        kind = small.quantization(name)
        # Rows are quantized one by one, so that their order does not matter here.
        exact = quants.dequantize(quants.quantize(values, kind), kind)
        expected = torch.from_numpy(np.ascontiguousarray(exact)).to(torch.bfloat16)
        assert torch.equal(found[name], expected), name


def test_config(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (config["hidden_size"], config["head_dim"], config["vocab_size"]) == (64, 16, 263)
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (4, 2)
    assert (config["rms_norm_eps"], config["rope_theta"]) == (1e-5, 1e5)
    assert config["tie_word_embeddings"] is True
    assert (config["bos_token_id"], config["eos_token_id"]) == (1, 2)


def test_tokenizer(folder: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoded = tokenizer.encode("<|im_start|>hell hell12", add_special_tokens=False)
    assert encoded.tokens == ["<|im_start|>", "hell", "Ġhell", "1", "2"]
    assert tokenizer.decode(encoded.ids) == "hell hell12"
    assert tokenizer.decode(tokenizer.encode("ça, 日本\n").ids) == "ça, 日本\n"
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert config["chat_template"] == small.TEMPLATE
    assert (config["bos_token"], config["eos_token"]) == ("<|im_start|>", "<|im_end|>")


def test_the_same_file_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    convert(folder.parent / "small.gguf", tmp_path / "again")
    files = sorted(file.name for file in folder.iterdir())
    assert files == sorted(file.name for file in (tmp_path / "again").iterdir())
    for name in files:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_what_is_no_gguf_of_a_known_llama_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("not a model" * 100)
    with pytest.raises(ModelError, match="text.gguf: cannot be read as a GGUF file"):
        convert(tmp_path / "text.gguf", tmp_path / "model")
    small.write_gguf(tmp_path / "a.gguf", small.weights(), architecture="mamba")
    with pytest.raises(ModelError, match="holds a 'mamba'; only a 'llama' is converted"):
        convert(tmp_path / "a.gguf", tmp_path / "model")
    small.write_gguf(tmp_path / "b.gguf", small.weights(), pre="qwen2")
    with pytest.raises(ModelError, match="tokenizer is gpt2/qwen2; known here is gpt2/smollm"):
        convert(tmp_path / "b.gguf", tmp_path / "model")
    assert not (tmp_path / "model").exists()
