"""Checks keep their ids: each test of the suite is one, and the docs explain each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from draftgate.gate.checks import Check, explained_in
from draftgate.measure.migration import CHECKS, METRICS
from draftgate.measure.verdict import Metric, Status

from tests.conftest import ROOT


def checks_of_the_suite() -> Iterator[tuple[str, list[str]]]:
    """Each test of the suite, and the checks it is marked with."""
    for file in sorted((ROOT / "tests/suite").glob("test_*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                calls = [mark for mark in node.decorator_list if isinstance(mark, ast.Call)]
                yield (
                    node.name,
                    [
                        ast.literal_eval(call.args[0])
                        for call in calls
                        if ast.unparse(call.func) == "pytest.mark.dg_check"
                    ],
                )


def test_every_test_of_the_suite_is_one_check_and_no_check_is_two_tests():
    marked = dict(checks_of_the_suite())
    assert all(len(checks) == 1 for checks in marked.values())
    assert [check for (check,) in marked.values()] == list(Check)


def test_a_verdict_holds_the_plain_id_of_its_metric():
    verdict = Metric.STEP_RATE.verdict(Status.PASS, "as fast")
    assert type(verdict.metric) is str
    assert str(verdict) == "verify steps: pass: as fast"


def test_ids_are_those_that_records_hold():
    assert set(CHECKS.values()) == set(Check)
    assert {check for _, check in METRICS.values()} <= set(Check)
    assert {words: metric for words, (metric, _) in METRICS.items()} == {
        metric.words: metric for metric in Metric
    }


@pytest.mark.parametrize("check", Check)
def test_the_section_that_explains_a_red_check_is_there(check):
    text = (ROOT / "docs" / check.page).read_text()
    assert f"# {check.section}\n" in text
    assert f"`{check}`" in (ROOT / "docs/faults.md").read_text()


def test_a_check_of_a_users_own_is_explained_as_any_red_one():
    assert explained_in("test_mine::test_json") == "docs/faults.md, “What a red test means”"
    assert explained_in("pair") == "docs/faults.md, “Preflight rules”"
