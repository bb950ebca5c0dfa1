from __future__ import annotations

from draftgate.measure.verdict import Status, Verdict
from draftgate.report.ci import properties_of, render_markdown, write_markdown

from tests import states


def test_red_servers_come_first_each_with_its_reason():
    lines = render_markdown(states.red()).splitlines()
    assert lines[0] == "## ❌ 3 of 8 servers are red; 1 asked for and not measured in full."
    told = [line for line in lines if line.startswith("- **")]
    assert told[0].startswith(f"- **{states.SLOW}** {states.JUDGED}: slower: 744")
    assert told[-1] == f"- **{states.MISSING}**: asked for and not measured in full"


def test_every_row_has_the_columns_of_the_head():
    rows = [r for r in render_markdown(states.red()).splitlines() if r.startswith("|")]
    assert len(rows) == 10
    assert {row.replace("\\|", "").count("|") for row in rows} == {11}
    assert [row.split("|")[-2].strip() for row in rows[2:]].count("red") == 3


def test_it_is_added_to_the_summary_of_a_workflow_run(tmp_path):
    summary = tmp_path / "summary"
    summary.write_text("before\n")
    write_markdown(states.green(), tmp_path / "report.md", {"GITHUB_STEP_SUMMARY": str(summary)})
    assert summary.read_text() == "before\n" + (tmp_path / "report.md").read_text()
    write_markdown(states.green(), tmp_path / "report.md", {})


def test_junit_properties_of_a_verdict():
    verdict = Verdict("throughput", Status.REGRESSION, 744.444, 823.4, "tok/s", ("slower",))
    assert properties_of(verdict) == [
        ("throughput", "744.444 tok/s"),
        ("throughput verdict", "regression (limit 823.4 tok/s)"),
    ]
    flags = Verdict("flags", Status.PASS, None, None, "", ("as asked",))
    assert properties_of(flags) == [("flags verdict", "pass")]
