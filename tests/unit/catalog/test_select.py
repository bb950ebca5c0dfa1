"""Finding profiles and choosing among their servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from draftgate.catalog.select import Catalog, load_profiles, select, shipped_profiles
from draftgate.errors import ProfileError

from .conftest import CHAIN, HEAD

BOTH = HEAD + '[defaults]\ndevices = ["cpu", "gpu"]\n[[servers]]' + CHAIN
NEEDY = '[target]\npath = "${T}"\n[drafts.eagle3]\npath = "${D}"\n[[servers]]' + CHAIN


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Two profiles: `both` (CPU and GPU) and `needy` (variables T and D)."""
    for name, text in (("both", BOTH), ("needy", NEEDY)):
        (tmp_path / f"{name}.toml").write_text(text)
    return Catalog({name: tmp_path / f"{name}.toml" for name in ("both", "needy")}, {"T": "t"})


def ids(catalog: Catalog, *args: object, **kwargs: object) -> list[str]:
    return [spec.id for spec in select(catalog, *args, **kwargs)]  # type: ignore[arg-type]


def refused(catalog: Catalog, *args: object, **kwargs: object) -> str:
    with pytest.raises(ProfileError) as error:
        select(catalog, *args, **kwargs)  # type: ignore[arg-type]
    return str(error.value)


def test_without_names_everything_even_what_needs_variables(catalog: Catalog) -> None:
    assert ids(catalog) == [
        "both/none/cpu",
        "both/none/graph",
        "both/eagle3-s3k1d4/cpu",
        "both/eagle3-s3k1d4/graph",
        "needy/none/graph",
        "needy/eagle3-s3k1d4/graph",
    ]


def test_globs_match_the_id_or_what_follows_the_profile(catalog: Catalog) -> None:
    assert ids(catalog, ["both"], ["both/*/cpu"]) == ["both/none/cpu", "both/eagle3-s3k1d4/cpu"]
    assert ids(catalog, [], ["none/graph"]) == ["both/none/graph", "needy/none/graph"]
    assert ids(catalog, ["both"], ["eagle3*", "none/cpu"], ["cpu"]) == [
        "both/none/cpu",
        "both/eagle3-s3k1d4/cpu",
    ]


def test_names_give_the_order_and_repeat_nothing(catalog: Catalog) -> None:
    assert ids(catalog, ["needy", "both", "needy"], ["none/graph", "*/none/*"]) == [
        "needy/none/graph",
        "both/none/cpu",
        "both/none/graph",
    ]


def test_unknown_profile(catalog: Catalog) -> None:
    assert refused(catalog, ["bot"]) == (
        "unknown profile 'bot'; did you mean 'both'? There are: both, needy"
    )
    assert refused(catalog, ["zzz"]) == "unknown profile 'zzz'; there are: both, needy"


def test_glob_without_a_match(catalog: Catalog) -> None:
    assert refused(catalog, ["both"], ["eagle3-s3k1d5/cpu"]) == (
        "no server of both matches 'eagle3-s3k1d5/cpu'; did you mean 'eagle3-s3k1d4/cpu'? "
        "There are: both/none/cpu, both/none/graph, both/eagle3-s3k1d4/cpu, "
        "both/eagle3-s3k1d4/graph"
    )
    assert refused(catalog, ["both"], ["none/cpu", "NONE/CPUX*"]).startswith(
        "no server of both matches 'NONE/CPUX*'; did you mean 'none/cpu'? "
    )


def test_devices_that_no_chosen_server_runs_on(catalog: Catalog) -> None:
    assert refused(catalog, ["both"], ["*/graph"], ["cpu"]) == (
        "no chosen server runs on cpu; they need gpu: both/none/graph, both/eagle3-s3k1d4/graph"
    )


def test_a_named_profile_needs_its_variables(catalog: Catalog, tmp_path: Path) -> None:
    assert refused(catalog, ["needy"]) == (
        f"{tmp_path}/needy.toml: set D in the environment, or choose other servers with "
        "--dg-server; needed by needy/eagle3-s3k1d4/graph"
    )
    assert ids(catalog, ["needy"], ["none/*"]) == ["needy/none/graph"]
    assert catalog["needy"].servers[1].unset_variables == ("D",)


def test_only_chosen_profiles_are_read(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "needy.toml").write_text("nonsense")
    assert ids(catalog, ["both"], ["none/cpu"]) == ["both/none/cpu"]
    assert refused(catalog).startswith(f"{tmp_path}/needy.toml: not TOML: Expected '=' after a key")


def test_files_and_folders_are_added_to_the_shipped_profiles(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b", "a"):
        (folder / f"{name}.toml").write_text(BOTH)
    (folder / "notes.txt").write_text("no profile")
    (tmp_path / "c.toml").write_text(BOTH)
    profiles = load_profiles([folder, tmp_path / "c.toml", folder / "a.toml"])
    assert list(profiles) == [*shipped_profiles(), "a", "b", "c"]
    assert len(profiles) == len(shipped_profiles()) + 3
    assert profiles["a"] is profiles["a"]
    assert profiles["a"].name == "a"


def test_two_profiles_of_one_name_are_refused(tmp_path: Path) -> None:
    mine = tmp_path / "tiny.toml"
    mine.write_text(BOTH)
    with pytest.raises(ProfileError) as error:
        load_profiles([mine])
    assert str(error.value) == (
        f"two profiles are named 'tiny': {shipped_profiles()['tiny']} and {mine}; "
        "rename one of the files"
    )


def test_paths_that_hold_no_profile(tmp_path: Path) -> None:
    with pytest.raises(ProfileError) as error:
        load_profiles([tmp_path])
    assert str(error.value) == f"{tmp_path}: the folder holds no *.toml file"
    with pytest.raises(ProfileError) as error:
        load_profiles([tmp_path / "absent"])
    assert str(error.value) == f"{tmp_path}/absent: no such file or folder of profiles"
