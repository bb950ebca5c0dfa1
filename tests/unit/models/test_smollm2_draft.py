"""The committed draft of SmolLM2: small, of known provenance, and right for its target."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from draftgate.catalog.select import load_profiles
from draftgate.measure.prompts import BUILTIN
from draftgate.models.checkpoint import read_checkpoint
from draftgate.models.fetched import SOURCES
from draftgate.models.location import BUILTIN_FOLDER
from draftgate.preflight.asked import asked_by_spec
from draftgate.preflight.case import Case
from draftgate.preflight.rules import judge
from packaging.version import Version

DRAFT = BUILTIN_FOLDER / "smollm2-eagle3"
RECORD = json.loads((DRAFT / "training.json").read_text())
TARGET_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 49152,
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "max_position_embeddings": 8192,
    "rope_theta": 100000.0,
}
SERVERS = [s for s in load_profiles()["smollm2"].servers if s.speculation]


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_it_is_small() -> None:
    assert sum(file.stat().st_size for file in DRAFT.iterdir()) <= 12_000_000


def test_the_record_is_of_these_files() -> None:
    assert RECORD["sha256"] == {name: sha256(DRAFT / name) for name in RECORD["sha256"]}
    assert set(RECORD["sha256"]) == {"config.json", "model.safetensors"}
    assert RECORD["target_sha256"] == SOURCES["smollm2"].files["model.safetensors"]
    assert RECORD["held_out"]["prompts_sha256"] == sha256(BUILTIN / "chat.jsonl")
    assert read_checkpoint(DRAFT).trained_on_target_sha256 == RECORD["target_sha256"]


def test_it_accepts_what_it_was_built_to() -> None:
    assert RECORD["held_out"]["prompts"] == 90
    assert RECORD["held_out"]["acceptance_length"] >= 2.2
    assert min(RECORD["held_out"]["by_category"].values()) > 1.5
    first, *_, last = RECORD["held_out"]["accuracy"]
    assert first > 0.5
    assert last > 0.3


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.id)
@pytest.mark.parametrize("version", ["0.5.16", "0.5.23"])
def test_nothing_is_wrong_with_the_pair(server, version: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TARGET_CONFIG))
    case = Case(
        asked_by_spec(server, Version(version), acceptance_matters=True),
        Version(version),
        read_checkpoint(tmp_path),
        read_checkpoint(DRAFT),
    )
    # The target is fetched, so that here only its config is at hand.
    assert [finding.rule for finding in judge(case)] == ["weights"]
    assert case.captured == case.trained_on == (1, 14, 26)
    # The default layers are the same ones, so that no version captures others.
    assert case.captured_from(None) == (1, 14, 26)
