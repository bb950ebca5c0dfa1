"""The committed pair: intact, small, of known provenance, and as good as it is said to be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from draftgate.models.checkpoint import read_checkpoint
from draftgate.models.config import aux_layer_ids, expected_fc_width
from draftgate.models.location import BUILTIN_FOLDER

from tests.rebuild.training.build import differing_files
from tests.rebuild.training.language import Language

TARGET = BUILTIN_FOLDER / "tiny"
DRAFTS = {
    BUILTIN_FOLDER / "tiny-eagle3": (1, 3, 5),
    BUILTIN_FOLDER / "tiny-eagle3-embed": (-1, 1, 3),
}
PROMPTS = BUILTIN_FOLDER / "prompts" / "tiny.jsonl"
NEW_TOKENS = 128

each_draft = pytest.mark.parametrize("draft", DRAFTS, ids=lambda folder: folder.name)


def prompts() -> dict[str, list[int]]:
    lines = PROMPTS.read_text(encoding="ascii").splitlines()
    return {prompt["id"]: prompt["input_ids"] for prompt in map(json.loads, lines)}


def test_files_are_those_of_the_build() -> None:
    assert differing_files(BUILTIN_FOLDER, BUILTIN_FOLDER) == []


def test_every_file_of_the_pair_is_summed() -> None:
    summed = {
        line.split(maxsplit=1)[1]
        for line in (BUILTIN_FOLDER / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    }
    folders = (TARGET, *DRAFTS)
    files = {file for folder in folders for file in folder.iterdir()} | {PROMPTS}
    assert summed == {str(file.relative_to(BUILTIN_FOLDER)) for file in files}


@pytest.mark.parametrize("folder", [TARGET, *DRAFTS], ids=lambda folder: folder.name)
def test_a_folder_is_smaller_than_a_megabyte(folder: Path) -> None:
    assert sum(file.stat().st_size for file in folder.iterdir()) < 1_000_000
    assert {info.dtype for info in read_checkpoint(folder).tensors.values()} <= {
        "BF16",
        "I64",
        "BOOL",
    }


@each_draft
def test_weights_say_what_they_were_trained_on(draft: Path) -> None:
    checkpoint = read_checkpoint(draft)
    assert checkpoint.trained_on == DRAFTS[draft]
    assert aux_layer_ids(checkpoint.config) == DRAFTS[draft]
    target = (TARGET / "model.safetensors").read_bytes()
    assert checkpoint.trained_on_target_sha256 == hashlib.sha256(target).hexdigest()


@each_draft
def test_fc_takes_what_the_config_announces(draft: Path) -> None:
    checkpoint = read_checkpoint(draft)
    assert checkpoint.tensors["fc.weight"].shape == (64, 192)
    assert expected_fc_width(checkpoint.config) == 192


@each_draft
def test_d2t_and_t2d_are_the_same_vocabulary(draft: Path) -> None:
    checkpoint = read_checkpoint(draft)
    target_ids = [i + offset for i, offset in enumerate(checkpoint.read_integers("d2t"))]
    known = checkpoint.read_integers("t2d")
    assert len(target_ids) == checkpoint.config["draft_vocab_size"] == 32
    assert target_ids == [token for token, flag in enumerate(known) if flag]


def test_prompts_are_thirty_two_of_twenty_four_tokens() -> None:
    found = prompts()
    assert list(found) == [f"h{i:02d}" for i in range(32)]
    assert {len(ids) for ids in found.values()} == {24}


def test_prompts_begin_where_no_training_document_does() -> None:
    language = Language()
    starts = set()
    for ids in prompts().values():
        text = bytes(ids).decode("ascii")
        first_word = text[2:].split(" ")[0]
        starts.add((ord(text[0]) - ord("A"), language.words.index(first_word)))
    assert len(starts) == 32
    assert starts <= set(language.held_out_starts)
    assert starts.isdisjoint(language.training_starts)


def test_training_and_held_out_starts_share_nothing() -> None:
    language = Language()
    held_out, training = set(language.held_out_starts), set(language.training_starts)
    assert (len(held_out), len(training)) == (48, 336)
    assert held_out.isdisjoint(training)


def test_target_speaks_the_language() -> None:
    torch = pytest.importorskip("torch")
    from tests.rebuild.training.storage import load_target

    tokens = torch.tensor(Language().held_out_documents(32, 24 + NEW_TOKENS))
    logits, _ = load_target(TARGET)(tokens[:, :-1])
    right = (logits.argmax(-1) == tokens[:, 1:])[:, 23:]
    assert right.shape == (32, NEW_TOKENS)
    assert right.float().mean().item() > 0.999


@pytest.fixture(scope="module")
def greedy_text() -> Any:
    """The prompts with what the target says next, long enough to replay a run at 5/1/6."""
    torch = pytest.importorskip("torch")
    from tests.rebuild.training.replay import continue_greedily
    from tests.rebuild.training.storage import load_target

    return continue_greedily(
        load_target(TARGET), torch.tensor(list(prompts().values())), NEW_TOKENS + 5
    )


@each_draft
@pytest.mark.parametrize(("steps", "at_least"), [(3, 3.4), (5, 4.8)])
def test_draft_alone_accepts_as_much_as_it_was_built_to(
    greedy_text: Any, draft: Path, steps: int, at_least: float
) -> None:
    from tests.rebuild.training.replay import replay, right_proposals
    from tests.rebuild.training.storage import load_draft, load_target

    network, target_ids = load_draft(draft)
    right = right_proposals(
        load_target(TARGET), network, target_ids, DRAFTS[draft], greedy_text, steps
    )
    result = replay(right, 24, NEW_TOKENS, steps)
    assert len(result.histogram) == steps + 1
    assert at_least <= result.acceptance_length <= steps + 1
