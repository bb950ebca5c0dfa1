"""docs/profiles.md says all there is to a profile, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from draftgate.catalog.load import load_profile
from draftgate.catalog.schema import model_of
from draftgate.catalog.select import shipped_profiles
from draftgate.catalog.setting import HOMES
from draftgate.catalog.settings import SETTINGS, defaults_of

from tests.rebuild.profile_keys import PAGE, with_tables

TEXT = PAGE.read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", TEXT, re.S)


def rows(table: str) -> dict[str, list[str]]:
    """The cells behind each key of the documented table."""
    heading = f"`{HOMES[table]}`" if table else "Top level"
    section = TEXT.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    lines = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.M)
    return {key: cells.split(" | ") for key, cells in lines}


def test_the_tables_are_those_of_the_rows() -> None:
    assert with_tables(TEXT) == TEXT, "run python -m tests.rebuild.profile_keys"


@pytest.mark.parametrize("table", HOMES)
def test_every_key_is_documented_with_its_default(table: str) -> None:
    documented, fields = rows(table), model_of(table, SETTINGS).model_fields
    assert set(documented) == set(fields)
    for key, (_, default, *_) in documented.items():
        value = defaults_of(table)[key]
        if isinstance(value, tuple) and value:
            (value,) = value
        if fields[key].is_required():
            assert default == "required"
        elif default in ("none", "see below"):
            assert not value, key
        else:
            assert json.loads(default.strip("`")) == (list(value) if value == () else value), key


@pytest.mark.parametrize("table", ["defaults", "gpu", "cpu"])
def test_the_column_on_other_tables_is_true(table: str) -> None:
    documented = {key for key, cells in rows("servers").items() if f"`{table}`" in cells[2]}
    assert documented == set(model_of(table, SETTINGS).model_fields)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_toml_block_loads(block: str, tmp_path: Path) -> None:
    path = tmp_path / "block.toml"
    path.write_text(block)
    assert load_profile(path, {}).servers


def test_a_pair_of_your_own_takes_ten_lines(tmp_path: Path) -> None:
    assert len(BLOCKS[0].splitlines()) == 10
    path = tmp_path / "mine.toml"
    path.write_text(BLOCKS[0])
    assert [spec.id for spec in load_profile(path, {}).servers] == [
        "mine/none/graph",
        "mine/mine-s3k1d4/graph",
    ]


def test_every_shipped_profile_is_named() -> None:
    head = TEXT.split("\n## ", 1)[0].split("Shipped:", 1)[1]
    assert set(re.findall(r"`([a-z0-9.-]+)` \(", head)) == set(shipped_profiles())


def test_every_algorithm_is_named() -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith("| `algorithm` |"))
    for name in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
        assert f"`{name}`" in row
