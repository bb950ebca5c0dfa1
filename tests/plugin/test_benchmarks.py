"""pytest-benchmark's options as people use them: each way by which it passes in silence is closed.

Without `fixtures/draftgate/benchmarks.py` every test here was red: what it then did is said in each
(pytest-benchmark 5.3.1).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.plugin.conftest import NONE, PROFILE, SPEC, STEP_S

pytestmark = pytest.mark.extended

SPEED = ("-k", "throughput")
JUDGED = "test_throughput_is_that_of_the_baseline"
SLOWER = {"FAKE_SGLANG_STEP_S": str(3 * STEP_S)}
USAGE_ERROR = 4


@pytest.fixture(scope="module")
def measured() -> dict[str, str]:
    """An accepted record by its machine class; empty before the first test that asks for one."""
    return {}


@pytest.fixture
def accepted(stand_in, measured):
    """A stand-in with as many accepted sessions as asked for, made of one that was measured."""

    def measure():
        run = stand_in.run()
        assert run.code == 0, run.text
        record = json.loads(stand_in.record_path().read_text())
        for server in record["servers"].values():  # a busy machine may unsettle a boot
            for boot in server["boots"]:
                boot["invalid"] = []
        stand_in.record_path().write_text(json.dumps(record))
        path = stand_in.accept()
        measured[path.parent.name] = path.read_text()
        path.unlink()

    def make(sessions: int = 5):
        if not measured:
            measure()
        ((machine_class, text),) = measured.items()
        folder = stand_in.baselines / machine_class
        folder.mkdir(parents=True, exist_ok=True)
        record = json.loads(text)
        for number in range(sessions):
            record["session"] = f"2026-01-01T00-00-0{number}-test"
            for server in record["servers"].values():
                for round_ in server["boots"][0]["throughput"]["rounds"]:
                    round_["seconds"] *= 1.001
            (folder / f"{record['session']}.json").write_text(json.dumps(record, indent=1))
        return stand_in

    return make


def failures(path: Path) -> dict[str, str]:
    """Failed items of a JUnit file with their messages."""
    cases = ElementTree.parse(path).iter("testcase")
    return {
        case.get("name"): found.text or ""
        for case in cases
        if (found := case.find("failure")) is not None
    }


def edit(folder: Path, change) -> None:
    for path in folder.rglob("*.json"):
        record = json.loads(path.read_text())
        change(record)
        path.write_text(json.dumps(record, indent=1))


def test_a_slowdown_is_a_failed_item(accepted, tmp_path):
    """By itself: exit 0 without --benchmark-compare-fail, with it a traceback and JUnit green."""
    mine = accepted()
    junit = tmp_path / "junit.xml"
    run = mine.run(*SPEED, "--benchmark-compare", f"--junitxml={junit}", **SLOWER)
    assert run.code == 1, run.text
    red = failures(junit)
    assert set(red) == {f"{JUDGED}[{NONE}]", f"{JUDGED}[{SPEC}]"}
    for text in red.values():
        assert "slower:" in text
        assert "  next " in text
        assert "5 accepted sessions" in text
        assert len(text.splitlines()) <= 15
    # pytest-benchmark's own table, each server beside its baseline
    for id_ in (NONE, SPEC):
        assert f"test_throughput[{id_}] (NOW)" in run.out
        assert f"test_throughput[{id_}] (baseline)" in run.out
    assert "Traceback" not in run.text


def test_the_same_speed_is_green(accepted):
    mine = accepted(4)
    run = mine.run(*SPEED, "--benchmark-compare")
    assert run.code == 0, run.text
    assert f"test_throughput[{SPEC}] (baseline)" in run.out


def test_before_there_is_a_limit_a_gross_loss_is_red(accepted):
    """By itself: exit 0."""
    mine = accepted(1)
    run = mine.run(*SPEED, "--benchmark-compare", **SLOWER)
    assert run.code == 1, run.text
    assert "--benchmark-compare: slower by over 20%" in run.out


def test_no_accepted_session_is_an_error_before_anything_boots(stand_in):
    """By itself: a warning, exit 0."""
    run = stand_in.run(*SPEED, "--benchmark-compare")
    assert run.code == USAGE_ERROR, run.text
    assert "no accepted session of" in run.err
    assert "draftgate accept RECORD" in run.err
    assert not list(stand_in.tmp_path.rglob("server.log"))


def test_a_server_without_a_baseline_fails(accepted):
    """By itself, a renamed benchmark: not compared, exit 0."""
    mine = accepted(1)
    edit(mine.baselines, lambda record: record["servers"].pop(SPEC))
    run = mine.run(*SPEED, "--benchmark-compare")
    assert run.code == 1, run.text
    assert re.search(rf"^FAILED .*{JUDGED}\[{SPEC}\]", run.out, flags=re.MULTILINE)
    assert "no accepted session of this machine class measured this server" in run.out


def test_a_server_that_is_gone_fails(accepted):
    """By itself, a missing benchmark: not compared, exit 0."""
    mine = accepted(1)

    def add(record):
        record["servers"]["mine/old/cpu"] = record["servers"][NONE] | {"id": "mine/old/cpu"}

    edit(mine.baselines, add)
    run = mine.run(*SPEED, "--benchmark-compare")
    assert run.code == 1, run.text
    assert "mine/old/cpu: has a baseline, and was not measured" in run.out


def test_workers_are_refused(accepted):
    """By itself: benchmarks are disabled with a warning, exit 0."""
    mine = accepted(1)
    run = mine.run(*SPEED, "--benchmark-compare", "-n", "2")
    assert run.code == USAGE_ERROR, run.text
    assert "--benchmark-compare: pytest-xdist is on" in run.err
    assert "-n 0" in run.err


@pytest.mark.parametrize("left_out", [("-k", "flags"), ("--benchmark-disable",)])
def test_a_run_that_measures_nothing_is_refused(accepted, left_out):
    """By itself: exit 0."""
    mine = accepted(1)
    run = mine.run("--benchmark-compare", *left_out)
    assert run.code == USAGE_ERROR, run.text
    assert "no speed is measured in this run" in run.err


def test_times_of_another_machine_are_not_compared(accepted):
    """By itself: a warning that machine_info differs, and the comparison."""
    mine = accepted(1)
    edit(mine.baselines, lambda record: record["machine"].update(host="another"))
    run = mine.run(*SPEED, "--benchmark-compare")
    assert run.code == 1, run.text
    assert "were measured on other machines of this class" in run.out
    assert "(baseline)" not in run.out


@pytest.mark.parametrize("generations", [2, 20])
def test_a_server_that_dies_fails(accepted, tmp_path, generations):
    """By itself: left out of file and comparison; before the first round a traceback, no JUnit."""
    mine = accepted(1)
    # Enough rounds for the server to die in one, after whatever warm-up.
    (tmp_path / "mine.toml").write_text(PROFILE.replace("rounds = 2", "rounds = 20"))
    junit, file = tmp_path / "junit.xml", tmp_path / "times.json"
    run = mine.run(
        *(*SPEED, "--benchmark-compare", f"--junitxml={junit}", f"--benchmark-json={file}"),
        *("--dg-server", "none*"),
        FAKE_SGLANG_FAULT=f"killed@{generations}",
    )
    assert run.code == 1, run.text
    assert "--benchmark-compare: no speed was measured" in failures(junit)[f"{JUDGED}[{NONE}]"]
    assert "Traceback" not in run.text
    if generations == 20:  # in a round
        name = f"tests/suite/test_5_throughput.py::test_throughput[{NONE}]"
        assert json.loads(file.read_text())["not_measured"] == [name]


def test_the_users_own_threshold_is_a_failed_item(accepted, tmp_path):
    """By itself: a traceback after the last test, JUnit green. Alone it also asks to compare."""
    mine = accepted(1)
    junit = tmp_path / "junit.xml"
    run = mine.run(*SPEED, "--benchmark-compare-fail=min:50%", f"--junitxml={junit}", **SLOWER)
    assert run.code == 1, run.text
    assert set(failures(junit)) == {f"{JUDGED}[{NONE}]", f"{JUDGED}[{SPEC}]"}
    assert "--benchmark-compare-fail=min:50%" in run.out
    assert "Traceback" not in run.text
    assert "PerformanceRegression" not in run.text


def test_a_saved_run_can_be_compared_with(stand_in, tmp_path):
    """By itself: stored by the version of Python; another kind of machine is only warned of."""
    store = tmp_path / "times"
    storage = f"--benchmark-storage={store}"
    first = stand_in.run(*SPEED, storage, "--benchmark-save=first")
    assert first.code == 0, first.text
    (saved,) = store.rglob("*.json")
    machine_class = stand_in.record().machine.machine_class
    assert saved == store / machine_class / "0001_first.json"
    names = [entry["fullname"] for entry in json.loads(saved.read_text())["benchmarks"]]
    assert names == [
        f"tests/suite/test_5_throughput.py::test_throughput[{i}]" for i in (NONE, SPEC)
    ]

    second = stand_in.run(*SPEED, storage, "--benchmark-compare=0001", "--benchmark-save=second")
    assert f"test_throughput[{NONE}] (0001_first)" in second.out
    shown = compare_command(*sorted(store.rglob("*.json")))
    assert "0001_first" in shown
    assert "0002_second" in shown

    slower = stand_in.run(
        *(*SPEED, storage, "--benchmark-compare=0001", "--benchmark-compare-fail=min:50%"), **SLOWER
    )
    assert slower.code == 1, slower.text
    assert re.search(rf"^FAILED .*{JUDGED}\[{NONE}\]", slower.out, flags=re.MULTILINE)

    edit(store, lambda file: file["machine_info"]["draftgate"].update({"class": "h100x1"}))
    foreign = stand_in.run(*SPEED, storage, "--benchmark-compare=0001")
    assert foreign.code == USAGE_ERROR, foreign.text
    assert "times of two machines do not compare their software" in foreign.err

    absent = stand_in.run(*SPEED, storage, "--benchmark-compare=0009")
    assert absent.code == USAGE_ERROR, absent.text
    assert "--benchmark-compare 0009: no such file" in absent.err


@pytest.mark.parametrize("name", ["tests/suite", "a/b/c/d"])
def test_a_path_taken_for_a_name_is_explained(stand_in, name):
    """By itself: a warning and exit 0, or a traceback."""
    run = stand_in.run("--benchmark-compare", name)
    assert run.code == USAGE_ERROR, run.text
    assert f"--benchmark-compare {name}: no such file in" in run.err
    assert "put the option last" in run.err
    assert "Traceback" not in run.text


def test_rounds_of_another_length_stand_in_no_table(accepted, tmp_path):
    mine = accepted(1)
    (tmp_path / "mine.toml").write_text(PROFILE.replace("tokens = 24", "tokens = 28"))
    run = mine.run(*SPEED, "--benchmark-compare")
    assert run.code == 1, run.text
    assert "the throughput workload differs" in run.out
    assert "(baseline)" not in run.out


def test_the_baseline_is_a_file_of_pytest_benchmark(accepted, tmp_path):
    mine = accepted(1)
    now = tmp_path / "now.json"
    run = mine.run(*SPEED, "--benchmark-compare", f"--benchmark-json={now}")
    (baseline,) = tmp_path.rglob("baseline.json")
    shown = compare_command(baseline, now)
    assert shown.count(f"test_throughput[{SPEC}]") == 2, run.text


def compare_command(*files: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", *map(str, files)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
