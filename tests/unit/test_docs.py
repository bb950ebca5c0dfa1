"""Every `draftgate` command in the docs is one."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from draftgate.cli import _parser

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(page: Path) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("draftgate ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_the_docs_are_understood(page):
    for line in commands(page):
        words = [w for w in shlex.split(line, comments=True) if w not in ("[...]", "...")]
        _parser().parse_args(words[1:])  # exits where it does not understand


def test_they_are_looked_at():
    assert {"accept", "report", "trend"} <= {c.split()[1] for p in PAGES for c in commands(p)}
