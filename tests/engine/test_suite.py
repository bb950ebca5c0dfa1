"""The suite itself on real servers of the CPU engine, run as a user runs it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from draftgate.models.location import locate
from draftgate.probes.records import read_steps

from tests import planted
from tests.conftest import ROOT

PROFILE = """
[target]
path = "builtin:tiny"
[drafts.planted]
path = "{draft}"
[prompts]
path = "builtin:tiny"
count = 32
max_new_tokens = 128
[throughput]
prompts = 4
max_new_tokens = 32
rounds = 2
[defaults]
devices = ["cpu"]
context_length = 1024
skip_tokenizer = true
max_running_requests = 8
[[servers]]
draft = "planted"
algorithm = "{algorithm}"
num_steps = 3
topk = 1
num_draft_tokens = 4
acceptance_floor = 3.4
env = {env}
"""

SECOND = """
[[servers]]
draft = "planted"
num_steps = 1
topk = 1
num_draft_tokens = 2
"""


@pytest.fixture
def plant(tmp_path):
    """Write a profile with one planted fault; return the options that choose it."""

    def plant(draft="tiny-eagle3", fault=planted.unchanged, algorithm="EAGLE3", env="{}"):
        folder = fault(locate(f"builtin:{draft}").folder, tmp_path / "draft")
        profile = tmp_path / "planted.toml"
        profile.write_text(PROFILE.format(draft=folder, algorithm=algorithm, env=env))
        return [
            "tests/suite",
            "-m",
            "cpu",
            "--dg-profiles",
            str(profile),
            "--dg-profile",
            "planted",
        ]

    return plant


def first_red(run) -> str:
    """The first test that failed or errored, with the whole of its message."""
    sections = re.split(r"^_{3,} (.*?) _{3,}$", run.out, flags=re.MULTILINE)
    return f"{sections[1]}\n{sections[2]}"


def no_server_left(artifacts: Path) -> bool:
    mine = [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"]]
    return not any(str(artifacts) in " ".join(p.info["cmdline"]) for p in mine)


def test_a_planted_fault_is_named_before_anything_boots(run_pytest, plant, tmp_path):
    begin = time.monotonic()
    run = run_pytest(*plant(algorithm="EAGLE"))
    assert run.code == 1, run.text
    assert "test_pair_and_flags_fit" in first_red(run)
    assert "told algorithm EAGLE" in first_red(run)
    assert "remedy:" in first_red(run)
    assert not list(tmp_path.rglob("server.log"))
    assert time.monotonic() - begin < 60


LIVE = {
    "EAGLE": (
        {"algorithm": "EAGLE"},
        {
            "test_eagle3_draft_is_served_as_eagle3": "the server runs algorithm EAGLE",
            "test_fc_is_fed_the_concatenated_layers": "fed 64-wide states instead of 192-wide",
            "test_server_returns_the_concatenated_layers": "returned 64-wide",
            "test_draft_is_fed_the_layers_it_was_trained_on": "is fed [final norm]",
            "test_acceptance_length": "speculation collapsed",
        },
    ),
    "plain ids": (
        {"draft": "tiny-eagle3-embed", "fault": planted.layer_ids_plain},
        {
            "test_draft_is_fed_the_layers_it_was_trained_on": (
                "trained on [embedding, 1, 3] and is fed [1, 3, 5]"
            ),
            "test_acceptance_length": "below the profile's floor",
        },
    ),
}


@pytest.mark.parametrize("name", ["EAGLE", pytest.param("plain ids", marks=pytest.mark.extended)])
def test_a_planted_fault_is_red_on_the_live_server(run_pytest, plant, name):
    planting, expected = LIVE[name]
    run = run_pytest(*plant(**planting), "--dg-no-preflight", "-k", "not pair and not throughput")
    assert run.code == 1, run.text
    failed = set(re.findall(r"^FAILED .*::(\w+)\[", run.out, flags=re.MULTILINE))
    assert failed == set(expected), run.out
    for words in expected.values():
        assert words in run.out


def test_reordered_ids_are_healthy_and_a_baseline_is_kept(run_pytest, plant, tmp_path):
    options = plant(fault=planted.layer_ids_reordered)
    baselines = tmp_path / "baselines"
    run = run_pytest(*options, "--dg-baselines", str(baselines))
    assert run.code == 0, run.text
    assert "recording" in run.out

    (path,) = tmp_path.rglob("record.json")
    record = json.loads(path.read_text())
    (server,) = record["servers"].values()
    (boot,) = server["boots"]
    assert boot["layers"]["fed"] == [1, 3, 5]
    each_step_was_timed(boot["step_times"], tmp_path)

    for measured in server["boots"]:  # on a busy machine warm-up may never agree
        measured["throughput"]["settled"], measured["invalid"] = True, []
    path.write_text(json.dumps(record))
    accept = [sys.executable, "-m", "draftgate.cli", "accept", str(path), "--reason", "a test"]
    subprocess.run([*accept, "--baselines", str(baselines)], cwd=ROOT, check=True)
    (stored,) = baselines.rglob("*.json")
    faster = json.loads(stored.read_text())
    stored.unlink()
    for number in range(5):  # as many accepted sessions as a limit needs
        faster["session"] = f"2026-01-01T00-00-0{number}-test"
        for cell in faster["servers"].values():
            for round_ in cell["boots"][0]["throughput"]["rounds"]:
                round_["seconds"] /= 20 if number == 0 else 1.001
        (stored.parent / f"{faster['session']}.json").write_text(json.dumps(faster))

    again = run_pytest(*options, "--dg-baselines", str(baselines), "-k", "through")
    assert again.code == 1, again.text
    told = first_red(again)
    assert "slower: " in told
    assert re.search(r"against \S+ \(-9\d\.\d%", told)
    assert "5 accepted sessions, 5 of them on this machine" in told
    assert "software      unchanged since" in told
    assert "draftgate ab --reference" in told
    assert "FAIL regression" in again.out


def each_step_was_timed(times, artifacts: Path) -> None:
    """On the CPU engine no step is overlapped: as many run as the replies count."""
    assert times["reason"] is None
    assert times["steps"] == times["round"]["verify_steps"]
    assert list(times["phases_ms"]) == ["draft", "verify", "extend"]
    (file,) = artifacts.rglob("phases/*.jsonl")
    clock, steps = read_steps(file.parent, file.name.partition(".")[0])
    assert (clock, len(steps)) == ("host", times["steps"])
    assert sum(step.wall_ms is None for step in steps) == 4  # the last of each prompt
    for step in steps:
        assert min(step.phases_ms.values()) > 0
        assert step.wall_ms is None or sum(step.phases_ms.values()) <= step.wall_ms


@pytest.fixture
def started(plant, tmp_path):
    """A suite run in the background, its server ready and an acceptance run under way."""
    artifacts = tmp_path / "artifacts"
    options = plant()
    profile = tmp_path / "planted.toml"
    profile.write_text(profile.read_text() + SECOND)
    output = (tmp_path / "output").open("w+")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options),
            *("--dg-artifacts", str(artifacts), "-k", "flags or greedy or through"),
        ],
        cwd=ROOT,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
    )
    deadline = time.monotonic() + 300
    while "test_4_acceptance.py" not in (tmp_path / "output").read_text():
        assert process.poll() is None, (tmp_path / "output").read_text()
        assert time.monotonic() < deadline, (tmp_path / "output").read_text()
        time.sleep(0.1)
    time.sleep(2)
    yield process
    process.kill()
    process.wait()
    output.close()


def schedulers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The server's processes below the running suite, the main one first."""
    below = psutil.Process(process.pid).children(recursive=True)
    return [p for p in below if "launch_server" in " ".join(p.cmdline()) or "sglang" in p.name()]


def test_a_server_killed_in_the_middle_fails_its_tests_and_the_rest_goes_on(started, tmp_path):
    schedulers(started)[0].kill()
    killed = time.monotonic()
    text = ""
    while "test_5_throughput.py" not in text and time.monotonic() - killed < 30:
        time.sleep(0.02)
        text = (tmp_path / "output").read_text()
    noticed_s = time.monotonic() - killed
    # The second server boots and is judged; its acceptance run need not be waited for.
    while "planted-s1k1d2" not in text or text.count("test_4_acceptance.py") < 2:
        assert started.poll() is None, text
        assert time.monotonic() - killed < 120, text
        time.sleep(0.1)
        text = (tmp_path / "output").read_text()
    started.send_signal(signal.SIGINT)
    started.wait(60)
    text = (tmp_path / "output").read_text()
    assert "ServerDied" in text
    assert "the server died: " in text
    assert "(said in full by check text" in text
    assert noticed_s < 2, noticed_s  # how soon exactly is measured by tox -e bench
    (path,) = (tmp_path / "artifacts").rglob("record.json")
    outcomes = {
        id_: server["outcomes"] for id_, server in json.loads(path.read_text())["servers"].items()
    }
    first, second = outcomes.values()
    assert first["text"] == "failed"
    assert first["speed"] == "error"
    assert second["flags"] == "passed"
    assert no_server_left(tmp_path / "artifacts")


@pytest.mark.parametrize("moment", ["imports", "weights"])
def test_no_server_outlives_ctrl_c_during_the_boot(plant, tmp_path, moment):
    output = tmp_path / "output"
    artifacts = tmp_path / "artifacts"
    with output.open("w") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plant()),
                *("--dg-artifacts", str(artifacts), "-k", "flags"),
            ],
            cwd=ROOT,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 120
        phases = ("weights", "kv cache") if moment == "weights" else ("imports",)
        while not any(phase in output.read_text() for phase in phases):
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.05)
        found = schedulers(process)
        process.send_signal(signal.SIGINT)
        _, alive = psutil.wait_procs(found, timeout=10)
        assert alive == []
        assert process.wait(30) == 2  # interrupted
    assert no_server_left(artifacts)
