"""docs/profiles.md says all there is to a profile, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import draftgate
import pytest
from draftgate.catalog import schema
from draftgate.catalog.load import load_profile
from draftgate.catalog.select import shipped_profiles
from pydantic import BaseModel

TEXT = (Path(draftgate.__file__).parents[2] / "docs" / "profiles.md").read_text()
BLOCKS = re.findall(r"```toml\n(.*?)```", TEXT, re.S)
TABLES: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "Top level": (schema.ProfileFile, {"acceptance_means_something": True, "description": ""}),
    "`[target]`": (schema.TargetTable, {"trust_remote_code": False, "load_format": "auto"}),
    "`[drafts.NAME]`": (schema.DraftTable, {"load_format": "auto"}),
    "`[prompts]`": (schema.PromptsTable, schema.PROMPTS),
    "`[throughput]`": (schema.ThroughputTable, schema.THROUGHPUT),
    "`[[servers]]`": (schema.ServerTable, schema.SERVER | {"args": [], "env": {}}),
}


def rows(heading: str) -> dict[str, str]:
    """The keys of the table under `heading` with their defaults."""
    section = TEXT.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    return dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \| [^|]+ \|$", section, re.M))


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_is_documented_with_its_default(heading: str) -> None:
    table, defaults = TABLES[heading]
    documented = rows(heading)
    assert set(documented) == set(table.model_fields)
    for key, default in documented.items():
        value = defaults.get(key)
        if isinstance(value, tuple):
            (value,) = value
        if table.model_fields[key].is_required():
            assert default == "required"
        elif value is None:
            assert default in ("none", "see below"), key
        else:
            assert json.loads(default.strip("`")) == value, key


def test_the_sentence_on_shared_keys_is_true() -> None:
    order = list(rows("`[[servers]]`"))
    servers = set(schema.ServerTable.model_fields)
    left_out = {"draft", *("num_steps", "topk", "num_draft_tokens"), "label", "prompts"}
    assert set(schema.DefaultsTable.model_fields) == servers - left_out - {"throughput"}
    assert set(schema.GpuTable.model_fields) == set(order[order.index("cuda_graphs") :])
    assert set(schema.CpuTable.model_fields) == set(order[order.index("context_length") :])


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
