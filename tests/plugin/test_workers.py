"""The suite under pytest-xdist, on stand-ins of SGLang and of the driver of four GPUs."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
from draftgate.measure.record_file import read_record

from tests.plugin.conftest import SHORT

pytestmark = pytest.mark.extended

PROFILE = (
    SHORT
    + """devices = ["{device}"]
cuda_graphs = [true, false]
[[servers]]
"""
)
SPECULATING = """
[[servers]]
draft = "eagle3"
num_steps = {steps}
topk = 1
num_draft_tokens = {tokens}
acceptance_floor = 1.5
"""
USAGE_ERROR = 4
FUNCTIONAL = ["tests/suite", "-k", "not throughput", "--dg-profile", "mine"]


@pytest.fixture
def eight_servers(tmp_path, fake_sglang):
    """Options for a profile of eight servers on the stand-in, and where its launches are noted."""

    def choose(device: str = "gpu") -> list[str]:
        steps = range(1, 4) if device == "gpu" else range(1, 8)
        servers = [SPECULATING.format(steps=n, tokens=n + 1) for n in steps]
        profile = tmp_path / "mine.toml"
        profile.write_text(PROFILE.format(device=device) + "".join(servers))
        python = tmp_path / "noting"
        python.write_text(
            "#!/bin/sh\n"
            'case "$*" in *sglang.launch_server*)\n'
            f'  echo "$CUDA_VISIBLE_DEVICES $*" >> {shlex.quote(str(tmp_path / "launches"))};;\n'
            "esac\n"
            f'exec {shlex.quote(str(fake_sglang))} "$@"\n'
        )
        python.chmod(0o755)
        return ["--dg-profiles", str(profile), "--dg-server-python", str(python)]

    return choose


@pytest.fixture
def four_gpus(gpus) -> dict[str, str]:
    return gpus(4)


def launches(tmp_path: Path) -> list[str]:
    return (tmp_path / "launches").read_text().splitlines()


def the_session(tmp_path: Path) -> Path:
    (session,) = (path.parent for path in (tmp_path / "artifacts").glob("*/record.json"))
    return session


def test_four_workers_boot_each_of_eight_servers_once(
    run_pytest, eight_servers, four_gpus, tmp_path
):
    run = run_pytest(*FUNCTIONAL, *eight_servers(), "-n", "4", **four_gpus)
    assert run.code == 0, run.text
    assert len(launches(tmp_path)) == 8
    assert {line[0] for line in launches(tmp_path)} == {"0", "1", "2", "3"}
    record = read_record(the_session(tmp_path) / "record.json")
    assert list(record.servers) == [
        *("mine/none/graph", "mine/none/eager"),
        *(f"mine/eagle3-s{n}k1d{n + 1}/graph" for n in (1, 2, 3)),
        *(f"mine/eagle3-s{n}k1d{n + 1}/eager" for n in (1, 2, 3)),
    ]
    for server in record.servers.values():
        assert len(server.boots) == 1
        assert server.outcomes["text"] == "passed"
        assert server.outcomes.get("graphs-change-nothing", "passed") == "passed"
    assert record.not_measured == {}
    assert not (the_session(tmp_path) / "exchange").exists()
    assert run.out.count("record and logs:") == 1
    assert "mine/none/graph " in run.err  # progress, though workers have no terminal


def test_a_commit_while_the_session_runs_parts_no_workers(
    run_pytest, eight_servers, four_gpus, tmp_path
):
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(
        "#!/bin/sh\n"
        '[ "$3 $4 $5" = "describe --always --dirty" ] || exit 1\n'
        f"cd {shlex.quote(str(tmp_path))} && echo asked >> asked && wc -l < asked\n"
    )
    git.chmod(0o755)
    path = {"PATH": f"{git.parent}:{os.environ['PATH']}"}
    options = [*FUNCTIONAL, *eight_servers(), "--dg-server", "none/*", "-n", "2"]
    run = run_pytest(*options, **four_gpus, **path)
    assert run.code == 0, run.text
    record = read_record(the_session(tmp_path) / "record.json")
    assert len(record.servers) == 2
    assert record.software["suite_commit"] == "1"


def test_auto_is_a_worker_for_each_gpu(run_pytest, eight_servers, four_gpus):
    run = run_pytest(
        *FUNCTIONAL, *eight_servers(), "--dg-server", "none/*", "-n", "auto", **four_gpus
    )
    assert run.code == 0, run.text
    assert "created: 4/4 workers" in run.out


def test_workers_share_the_one_lease_of_a_host_without_gpus(run_pytest, eight_servers, tmp_path):
    """One server at a time, each once; ids of tests stay as they are without workers."""
    options = [
        *FUNCTIONAL,
        *eight_servers("cpu"),
        "--dg-server",
        "*s[12]k*",
        "--dg-server",
        "none*",
    ]
    run = run_pytest(*options, "-n", "3", "-v", XDG_RUNTIME_DIR=str(tmp_path))
    assert run.code == 0, run.text
    assert len(launches(tmp_path)) == 3
    assert re.search(
        r"PASSED tests/suite/\S+equals_no_speculation\[mine/eagle3-s2k1d3/cpu\]", run.out
    )
    assert re.search(r"waiting for 1 of 1 device.*cpu-engine is held by pid .* session 20", run.err)


def test_what_is_compared_with_a_server_that_cannot_boot_says_so(
    run_pytest, eight_servers, four_gpus, tmp_path
):
    options = [*FUNCTIONAL, *eight_servers(), "--dg-server", "*/graph", "-n", "2"]
    profile = tmp_path / "mine.toml"
    profile.write_text(
        profile.read_text().replace(
            "[[servers]]", '[[servers]]\nenv = {FAKE_SGLANG_FAULT = "exit_3"}', 1
        )
    )
    run = run_pytest(*options, **four_gpus)
    assert run.code == 1
    assert "SKIPPED" in run.out
    assert "not measured: mine/none/graph was not run" in run.out
    assert len(launches(tmp_path)) == 4


@pytest.mark.parametrize("dist", ["load", "loadgroup", "each"])
def test_speed_is_never_measured_beside_other_servers(run_pytest, eight_servers, tmp_path, dist):
    run = run_pytest(
        "tests/suite", *eight_servers("cpu"), "--dg-profile", "mine", "-n", "2", "--dist", dist
    )
    assert run.code == USAGE_ERROR, run.text
    assert "8 throughput tests would be timed beside other servers" in run.text
    assert 'Time them with -n 0, or leave them out of this run: -k "not throughput"' in run.text
    assert not (tmp_path / "launches").exists()
    assert "Traceback" not in run.text


@pytest.mark.parametrize(
    "left_out", [["-k", "not throughput"], ["--benchmark-disable"], ["--benchmark-skip"]]
)
@pytest.mark.parametrize("workers", ["0", "2"])
def test_without_benchmarks_no_session_is_green_under_require_baseline(
    run_pytest, eight_servers, tmp_path, left_out, workers
):
    run = run_pytest(
        *("tests/suite", *eight_servers("cpu"), "--dg-profile", "mine", "--dg-server", "none*"),
        *(*left_out, "-n", workers, "--dg-require-baseline"),
        XDG_RUNTIME_DIR=str(tmp_path),
    )
    assert run.code == 1, run.text
    assert "test_throughput" in run.out


def test_a_wrong_choice_is_one_error_under_workers_too(run_pytest, eight_servers):
    options = eight_servers("gpu")
    run = run_pytest(*FUNCTIONAL, *options, "-m", "gpu", "-n", "2")
    assert run.code == USAGE_ERROR
    assert run.text.count("no NVIDIA GPU is visible here") == 1


def test_a_worker_that_crashes_takes_nothing_with_it_unnoticed(
    run_pytest, eight_servers, four_gpus, tmp_path
):
    """The reference's worker dies: nobody waits for it, and its server is named as not measured."""
    (tmp_path / "driver" / "crash.py").write_text(
        "import os, signal\n"
        "def pytest_runtest_setup(item):\n"
        "    if 'PYTEST_XDIST_WORKER' in os.environ and 'none/graph' in item.name:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    options = [
        *FUNCTIONAL,
        *eight_servers(),
        "--dg-server",
        "none/graph",
        "--dg-server",
        "*s1k*/graph",
    ]
    run = run_pytest(*options, "-n", "2", "--max-worker-restart", "0", "-p", "crash", **four_gpus)
    assert run.code == 1, run.text
    assert re.search(r"worker 'gw[01]' crashed", run.out)
    assert "mine/none/graph: no worker of pytest-xdist ran it to its end" in run.out


def test_a_run_that_stops_early_waits_for_nobody(run_pytest, eight_servers, four_gpus, tmp_path):
    options = [*FUNCTIONAL, *eight_servers(), "--dg-server", "*/graph", "-n", "2", "-x"]
    profile = tmp_path / "mine.toml"
    profile.write_text(
        profile.read_text().replace(
            "[[servers]]", '[[servers]]\nenv = {FAKE_SGLANG_FAULT = "exit_3"}', 1
        )
    )
    run = run_pytest(*options, **four_gpus)
    assert run.code in (1, 2), run.text
    assert "the server ended before it was ready: exit code 3" in run.out
    assert "stopping after 1 failures" in run.out
