"""The planted faults are what they are called, and a draft alone already shows their damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draftgate.models.checkpoint import read_checkpoint
from draftgate.models.location import BUILTIN_FOLDER

from tests import planted
from tests.rebuild.training.language import Language

DRAFT = BUILTIN_FOLDER / "tiny-eagle3"
EMBED_DRAFT = BUILTIN_FOLDER / "tiny-eagle3-embed"
SMOLLM2_DRAFT = BUILTIN_FOLDER / "smollm2-eagle3"
of_both = pytest.mark.parametrize("draft", [DRAFT, SMOLLM2_DRAFT], ids=lambda draft: draft.name)
PLANTS = {**planted.FAULTS, **planted.CONTROLS}
DEFAULT_CAPTURE = (1, 3, 4)  # what SGLang captures of eight layers without ids: inputs 2, 4, 5


@of_both
@pytest.mark.parametrize("name", PLANTS)
def test_weights_keep_their_provenance(name: str, draft: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert PLANTS[name](draft, tmp_path / name) == tmp_path / name
    assert read_checkpoint(tmp_path / name).metadata == read_checkpoint(draft).metadata


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("layer_ids_later", [2, 4, 6]),
        ("layer_ids_earlier", [0, 2, 4]),
        ("layer_ids_reordered", [5, 3, 1]),
        ("unchanged", [1, 3, 5]),
    ],
)
def test_layer_ids(name: str, ids: list[int], tmp_path: Path) -> None:
    assert planted.layer_ids(PLANTS[name](DRAFT, tmp_path)) == ids
    weights = [folder / "model.safetensors" for folder in (tmp_path, DRAFT)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_layer_ids_of_a_target_of_thirty(tmp_path: Path) -> None:
    planted.layer_ids_of_another(26, 27, 28)(SMOLLM2_DRAFT, tmp_path)
    assert planted.layer_ids(tmp_path) == [26, 27, 28]
    assert read_checkpoint(tmp_path).trained_on == (1, 14, 26)


def test_plain_ids_for_a_draft_of_the_embedding(tmp_path: Path) -> None:
    planted.layer_ids_plain(EMBED_DRAFT, tmp_path)
    assert planted.layer_ids(tmp_path) == [1, 3, 5]
    assert read_checkpoint(tmp_path).trained_on == (-1, 1, 3)


def test_no_eagle_config(tmp_path: Path) -> None:
    planted.no_eagle_config(DRAFT, tmp_path)
    assert "eagle_config" not in json.loads((tmp_path / "config.json").read_text())


def test_lm_head_removed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    before = set(read_checkpoint(DRAFT).tensors)
    after = set(read_checkpoint(planted.lm_head_removed(DRAFT, tmp_path)).tensors)
    assert before - after == {"lm_head.weight"}


@of_both
def test_d2t(draft: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    offsets = read_checkpoint(draft).read_integers("d2t")
    target_ids = tuple(i + offset for i, offset in enumerate(offsets))
    seen = {
        name: read_checkpoint(PLANTS[name](draft, tmp_path / name)).read_integers("d2t")
        for name in ("d2t_zeros", "d2t_absolute", "d2t_shifted")
    }
    assert seen["d2t_zeros"] == (0,) * len(offsets)
    assert seen["d2t_absolute"] == target_ids
    shifted = tuple(i + offset for i, offset in enumerate(seen["d2t_shifted"]))
    assert shifted == (target_ids[-1], *target_ids[:-1])


@pytest.mark.parametrize(
    ("name", "served", "at_most"),
    [
        ("layer_ids_later", (2, 4, 6), 1.4),
        ("layer_ids_earlier", (0, 2, 4), 1.4),
        ("no_eagle_config", DEFAULT_CAPTURE, 1.7),
        ("d2t_shifted", (1, 3, 5), 1.1),
        ("d2t_zeros", (1, 3, 5), 1.1),
        ("d2t_absolute", (1, 3, 5), 1.3),
        ("lm_head_random", (1, 3, 5), 1.2),
        ("fc_chunks_swapped", (1, 3, 5), 1.4),
        ("fc_chunks_rotated", (1, 3, 5), 1.4),
    ],
)
def test_damage_in_the_draft_alone(
    name: str, served: tuple[int, ...], at_most: float, tmp_path: Path
) -> None:
    assert acceptance_length(planted.FAULTS[name](DRAFT, tmp_path), served) <= at_most


def test_damage_of_plain_ids_for_a_draft_of_the_embedding(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert acceptance_length(planted.layer_ids_plain(EMBED_DRAFT, tmp_path), (1, 3, 5)) <= 1.4


def acceptance_length(draft: Path, served: tuple[int, ...]) -> float:
    """At 3/1/4 over 8 held-out documents of 128 new tokens, fed the layers in ``served``."""
    torch = pytest.importorskip("torch")
    from tests.rebuild.training.replay import continue_greedily, replay, right_proposals
    from tests.rebuild.training.storage import load_draft, load_target

    network, target_ids = load_draft(draft)
    target = load_target(BUILTIN_FOLDER / "tiny")
    prompts = torch.tensor(Language().held_out_documents(8, 24))
    tokens = continue_greedily(target, prompts, 128 + 3)
    right = right_proposals(target, network, target_ids, served, tokens, 3)
    return replay(right, 24, 128, 3).acceptance_length
