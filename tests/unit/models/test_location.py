from __future__ import annotations

from pathlib import Path

import pytest
from draftgate.errors import ModelError
from draftgate.models.location import BUILTIN_FOLDER, ModelLocation, builtin_names, locate


@pytest.fixture
def profile_folder(tmp_path: Path) -> Path:
    model = tmp_path / "models" / "mine"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    return tmp_path


@pytest.fixture
def empty_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    constants = pytest.importorskip("huggingface_hub.constants")
    cache = tmp_path / "hub"
    cache.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    return cache


def cached_model(cache: Path, org: str, name: str) -> Path:
    commit = "0" * 40
    repo = cache / f"models--{org}--{name}"
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    return snapshot


def test_builtin() -> None:
    found = locate("builtin:tiny-eagle3")
    assert found == ModelLocation("builtin:tiny-eagle3", "builtin", BUILTIN_FOLDER / "tiny-eagle3")


def test_builtin_names_are_models_only() -> None:
    names = builtin_names()
    assert {"tiny", "tiny-eagle3", "tiny-eagle3-embed"} <= set(names)
    assert "prompts" not in names


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [("builtin:tiny-eagel3", "builtin:tiny-eagle3"), ("builtin:zzz", "builtin:tiny")],
)
def test_unknown_builtin_names_the_nearest(asked: str, suggested: str) -> None:
    with pytest.raises(ModelError, match=f"^{asked}: .* did you mean .*{suggested}"):
        locate(asked)


def test_folder_is_relative_to_the_profile(profile_folder: Path) -> None:
    model = profile_folder / "models" / "mine"
    for asked in ("./models/mine", "models/mine", str(model)):
        found = locate(asked, base=profile_folder)
        assert found == ModelLocation(asked, "folder", model)


def test_folder_is_relative_to_the_current_one_without_base(
    profile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(profile_folder)
    assert locate("models/mine").folder == profile_folder / "models" / "mine"


def test_home_is_expanded(profile_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(profile_folder))
    assert locate("~/models/mine").folder == profile_folder / "models" / "mine"


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ("./absent", "no such model folder .*hub id such as org/name, or builtin:NAME"),
        ("./empty", "is empty; download or copy the model there"),
        ("./models", "holds no config.json; give the folder"),
        ("./models/mine/config.json", "is a file; give the model's folder"),
    ],
)
def test_unusable_folder(profile_folder: Path, asked: str, complaint: str) -> None:
    (profile_folder / "empty").mkdir()
    with pytest.raises(ModelError, match=complaint) as caught:
        locate(asked, base=profile_folder)
    assert str(caught.value).startswith(f"{asked}: ")
    assert str(profile_folder / asked) in str(caught.value)


@pytest.mark.parametrize("asked", ["builtin:tiny", "models/mine"])
def test_revision_needs_a_hub_id(profile_folder: Path, asked: str) -> None:
    with pytest.raises(ModelError, match="only a hub id"):
        locate(asked, base=profile_folder, revision="main")


def test_hub_id_outside_the_cache(empty_hub: Path) -> None:
    assert locate("some-org/some-model") == ModelLocation("some-org/some-model", "hub", None)


def test_hub_id_in_the_cache(empty_hub: Path) -> None:
    snapshot = cached_model(empty_hub, "some-org", "some-model")
    assert locate("some-org/some-model", download=True).folder == snapshot
    assert locate("some-org/some-model", revision="0" * 40).folder == snapshot
    assert locate("some-org/some-model", revision="other").folder is None


def test_hub_snapshot_without_config_is_not_usable(empty_hub: Path) -> None:
    snapshot = cached_model(empty_hub, "some-org", "some-model")
    (snapshot / "config.json").rename(snapshot / "other.json")
    assert locate("some-org/some-model").folder is None


def test_offline_download_says_so(empty_hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="not in the local hub cache, and HF_HUB_OFFLINE forbids"):
        locate("some-org/some-model", download=True)


def test_failed_download_names_id_reason_and_remedy(
    empty_hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ModelError, match="download at revision v1 failed") as caught:
        locate("some-org/some-model", base=tmp_path, revision="v1", download=True)
    message = str(caught.value)
    assert message.startswith("some-org/some-model: ")
    assert str(tmp_path / "some-org" / "some-model") in message
    assert "give the path of a folder" in message
    assert len(message.splitlines()) == 1
