"""What a session leaves behind besides its record: page, Markdown, JUnit properties, history."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from draftgate.measure.machine import describe_machine
from draftgate.report.history import history_file, points_of, read_history

from tests.plugin.conftest import NONE, SPEC
from tests.plugin.test_choice import USAGE_ERROR, collected

pytestmark = pytest.mark.extended

NIGHTLY = ("--dg-require-baseline", "-k", "asked or acceptance_length or throughput")


def test_a_session_and_everything_it_leaves_behind(stand_in, tmp_path):
    summary, junit = tmp_path / "summary.md", tmp_path / "junit.xml"
    run = stand_in.run(
        *NIGHTLY, "--junitxml", str(junit), GITHUB_STEP_SUMMARY=str(summary), GITHUB_ACTIONS=""
    )
    assert run.code == 1, run.text
    record, folder = stand_in.record(), stand_in.record_path().parent
    assert run.out.rstrip().splitlines()[-1] == f"report: {folder / 'report.html'}"

    # What --dg-require-baseline makes a failure is one on the page too.
    assert record.missing == (SPEC, NONE)
    assert not record.green
    judged = record.servers[NONE].messages["speed-change"].text
    assert "--dg-require-baseline is set, and this was not judged" in judged
    page = (folder / "report.html").read_text()
    assert "2 of 2 servers are red; 2 asked for and not measured in full." in page
    assert f'href="../{record.servers[NONE].last.log}"' in page
    assert (folder.parent / record.servers[NONE].last.log).is_file()
    assert summary.read_text() == (folder / "report.md").read_text()

    history = history_file(folder.parent / "history", record.machine.machine_class)
    assert read_history(history) == points_of(record)

    cases = {
        case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")}
        for case in ElementTree.parse(junit).iter("testcase")
    }
    length = record.servers[SPEC].last.acceptance.length
    properties = cases[f"test_acceptance_length[{SPEC}]"]
    assert properties == {
        "server": SPEC,
        "acceptance-length": f"{length:.6g} tokens/step",
        "acceptance-length verdict": "pass (limit 2 tokens/step)",
    }
    (judged,) = [p for name, p in cases.items() if "baseline" in name and NONE in name]
    assert judged["throughput"] == f"{record.servers[NONE].tok_s:.6g} tok/s"
    assert judged["throughput verdict"] == "recording"


def test_two_sessions_are_a_history(stand_in, tmp_path):
    for _ in range(2):
        run = stand_in.run("-k", "throughput", "--dg-history", str(tmp_path / "nights"))
        assert run.code == 0, run.text
    (file,) = (tmp_path / "nights").iterdir()
    assert [point.server for point in read_history(file)] == [NONE, SPEC] * 2
    assert "Speed over time, tok/s" in (stand_in.record_path().parent / "report.html").read_text()


def test_a_spoiled_history_is_told_before_anything_boots(stand_in, tmp_path):
    file = history_file(tmp_path / "nights", describe_machine("cpu", (), None).machine_class)
    file.parent.mkdir()
    file.write_text("{}\n")
    run = stand_in.run("-k", "throughput", "--dg-history", str(file.parent))
    assert run.code == USAGE_ERROR
    assert f"{file}, line 1: not a line of history" in run.text
    assert "Traceback" not in run.text


@pytest.mark.parametrize(
    ("shard", "drafts"),
    [
        ("1/2", ["eagle3-s3k1d4", "eagle3-s5k1d6"]),
        ("2/2", ["eagle3-s3k4d8", "embed-s3k1d4"]),
        ("2/3", ["eagle3-s5k1d6"]),
    ],
)
def test_a_shard_holds_what_its_servers_are_compared_with(run_pytest, shard, drafts):
    run = run_pytest("tests/suite", "--collect-only", "-q", "--dg-shard", shard)
    assert collected(run) == ["tiny/none/cpu", *(f"tiny/{draft}/cpu" for draft in drafts)]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_empty_shard_says_so_and_is_no_failed_job(stand_in, tmp_path, workers):
    run = stand_in.run("--dg-require-baseline", "--dg-shard", "1/2", "-n", workers)
    assert run.code == 0
    assert f"--dg-shard 1/2 holds no server: 1 to share ({SPEC})" in run.out
    assert not (tmp_path / "artifacts").exists()


@pytest.mark.parametrize(
    ("shard", "words"),
    [
        ("3/2", "--dg-shard 3/2: expected I/N"),
        ("0/2", "1/4 is the first of four"),
        ("half", "--dg-shard half: expected I/N"),
    ],
)
def test_a_shard_that_cannot_be(run_pytest, shard, words):
    run = run_pytest("tests/suite", "--collect-only", "-q", "--dg-shard", shard)
    assert run.code == USAGE_ERROR
    assert words in run.text
    assert "Traceback" not in run.text
