"""Who turns text into tokens is settled before the boot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.client import Prompt
from draftgate.errors import PreflightError
from draftgate.models.checkpoint import read_checkpoint
from draftgate.models.location import locate
from draftgate.preflight.server import judge_tokenizer, require_token_ids

IDS = Prompt(id="a", input_ids=(1, 2), text=None, category="")
TEXT = Prompt(id="b", input_ids=None, text="two", category="")


@pytest.fixture
def tiny():
    return load_profiles([])["tiny"].servers[0]


@pytest.fixture
def target(tmp_path):
    folder = locate("builtin:tiny").folder
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(folder / name)
    return read_checkpoint(tmp_path)


def test_a_target_without_one_needs_skip_tokenizer(tiny, target):
    assert judge_tokenizer(tiny, target) == ()
    (told,) = judge_tokenizer(replace(tiny, skip_tokenizer=False), target)
    assert (told.rule, told.severity, told.evidence) == ("tokenizer", "error", str(target.folder))
    assert "holds no tokenizer" in told.message
    assert "skip_tokenizer = true" in told.remedy


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tiktoken.model", "vocab.json", "qwen.tiktoken"]
)
def test_any_file_of_a_tokenizer_counts(tiny, target, name):
    (target.folder / name).touch()
    assert judge_tokenizer(replace(tiny, skip_tokenizer=False), target) == ()


def test_a_server_without_one_is_sent_token_ids(tiny):
    require_token_ids(tiny, [IDS])
    require_token_ids(replace(tiny, skip_tokenizer=False), [IDS, TEXT])
    with pytest.raises(PreflightError, match="prompt 'b' of builtin:tiny is text"):
        require_token_ids(tiny, [IDS, TEXT])
