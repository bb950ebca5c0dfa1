"""What import contracts cannot see: the page that shows them, and the folders of the servers."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fixtures/draftgate"
SITE_FILES = sorted(PACKAGE.glob("*/site/**/*.py"))


def test_the_page_lists_the_rooms_in_the_order_of_the_contract() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = [set(layer.split(" | ")) for layer in reversed(tool["contracts"][0]["layers"])]
    page = (ROOT / "docs/internals.md").read_text().partition("## One run")[0]
    cells = re.findall(r"^\| (`.+?) \|", page, re.MULTILINE)
    shown = [
        name.removesuffix("/").removesuffix(".py") for c in cells for name in c.split("`")[1::2]
    ]
    floor_of = {room: floor for floor, rooms in enumerate(layers) for room in rooms}
    floor_of.pop("(suite)")
    assert sorted(shown) == sorted(floor_of) == sorted(rooms())
    assert [floor_of[room] for room in shown] == sorted(floor_of.values())


def rooms() -> set[str]:
    """What lies in the package, the suite apart."""
    found = {path.stem for path in PACKAGE.glob("*.py")}
    found |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return found - {"__init__", "suite"}


@pytest.mark.parametrize("file", SITE_FILES, ids=lambda file: file.name)
def test_what_a_server_imports_knows_nothing_of_the_package(file: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            imported.add(str(node.module).partition(".")[0])
    assert imported.isdisjoint({"draftgate", "tests"})
