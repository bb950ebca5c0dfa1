"""The rules as a whole: named, documented, in docs/faults.md, and all of them proven to fire."""

from __future__ import annotations

from pathlib import Path

import pytest
from draftgate.preflight.rules import RULES

DOCS = Path(__file__).parents[3] / "docs" / "faults.md"


def documented() -> dict[str, str]:
    section = DOCS.read_text(encoding="utf-8").split("## Preflight rules\n")[1].split("\n## ")[0]
    rows = [line.split(" | ", 1) for line in section.splitlines() if line.startswith("| `")]
    return {name.strip("| `"): text.removesuffix(" |") for name, text in rows}


def said(rule: str) -> str:
    return " ".join((RULES[rule].__doc__ or "").split())


def test_the_docs_have_a_row_for_each_rule_and_no_other():
    assert list(documented()) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_the_docs_say_what_the_rule_says(rule):
    assert documented()[rule] == said(rule)
