"""Servers on several GPUs, on stand-ins of SGLang and of the driver."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from draftgate.measure.record_file import read_record

from tests.conftest import ROOT
from tests.plugin.conftest import SHORT, holding, wait_for
from tests.plugin.test_choice import collected

pytestmark = pytest.mark.extended

DRAFT = """
[[servers]]
draft = "eagle3"
num_steps = 3
topk = 1
num_draft_tokens = 4
acceptance_floor = 1.5
"""
PROFILE = f"""{SHORT}boot_timeout_s = 60
[[servers]]
{DRAFT}
[[servers]]
tp = 2
{DRAFT}
tp = 2
[[servers]]
dp = 2
{DRAFT}
dp = 2
"""
ONE, TP, DP = (f"mine/eagle3-s3k1d4{end}/graph" for end in ("", "-tp2", "-dp2"))
CHECK = "several-gpus"


@pytest.fixture
def mine(tmp_path, fake_sglang):
    """Options for the suite on a profile of servers on one GPU and on two."""

    def options(profile=PROFILE):
        (tmp_path / "mine.toml").write_text(profile)
        python = ("--dg-server-python", str(fake_sglang))
        return ["tests/suite", "--dg-profiles", str(tmp_path / "mine.toml"), *python]

    return options


def record_of(tmp_path):
    (path,) = (tmp_path / "artifacts").glob("*/record.json")
    return read_record(path)


def test_several_gpus_are_judged_by_one(run_pytest, mine, gpus, tmp_path):
    run = run_pytest(*mine(), **gpus(2))
    assert run.code == 0, run.text
    servers = record_of(tmp_path).servers
    assert list(servers) == [
        *("mine/none/graph", ONE),
        *("mine/none-tp2/graph", "mine/none-dp2/graph", TP, DP),
    ]
    assert CHECK not in servers[ONE].outcomes
    for id_ in (TP, DP):
        server = servers[id_]
        assert server.outcomes[CHECK] == "passed"
        (verdict,) = (v for v in server.verdicts if v.metric == "several-gpus")
        assert verdict.value == verdict.limit == servers[ONE].last.acceptance.length
        # Every rank that served the request is seen, and each step is read once.
        assert server.last.layers.ranks == (2 if id_ == TP else 1)
        assert server.last.step_times.steps == servers[ONE].last.step_times.steps
        assert server.last.resolved["tp_size"] * server.last.resolved["dp_size"] == 2
    log = (tmp_path / "artifacts" / servers[DP].last.log).read_text()
    assert " DP0] Capture draft decode" in log
    assert " DP1] Capture draft decode" in log


def test_a_rank_that_accepts_less_is_red(run_pytest, mine, gpus, tmp_path):
    """Nothing else is: the text is right, and the acceptance above its floor."""
    profile = f'{PROFILE}env = {{FAKE_SGLANG_FAULT = "accepts_less"}}\n'
    run = run_pytest(*mine(profile), "-k", "not throughput", **gpus(2))
    assert run.code == 1, run.text
    outcomes = {id_: server.outcomes for id_, server in record_of(tmp_path).servers.items()}
    red = [(i, test) for i, tests in outcomes.items() for test in tests if tests[test] == "failed"]
    assert red == [(DP, CHECK)]
    assert re.search(
        rf"{DP}: acceptance length 2\.\d+ on several GPUs, 3\.\d+ on one: 4 of 4 prompts", run.out
    )


def test_workers_run_them_after_what_they_are_compared_with(run_pytest, mine, gpus, tmp_path):
    run = run_pytest(*mine(), "-k", "not throughput", "-n", "2", **gpus(2))
    assert run.code == 0, run.text
    servers = record_of(tmp_path).servers
    assert len(servers) == 6
    assert {servers[id_].outcomes[CHECK] for id_ in (TP, DP)} == {"passed"}


def test_a_host_of_one_gpu_measures_what_it_can(run_pytest, mine, gpus, tmp_path):
    one_gpu = gpus(1)
    run = run_pytest(*mine(), "-k", "asked_for", **one_gpu)
    assert run.code == 0, run.text
    why = "needs 2 GPUs, 1 visible"
    missing = {id_: why for id_ in record_of(tmp_path).not_measured}
    assert record_of(tmp_path).not_measured == missing
    assert len(missing) == 4
    assert f"\n{TP}: {why}\n" in run.out
    assert run.out.count(why) == 4
    # Asked for by name in a night: then it is missing.
    night = run_pytest(*mine(), "--dg-server", TP, "--dg-require-baseline", **one_gpu)
    assert night.code == 1, night.text


def test_the_default_profile_asks_for_no_second_gpu(run_pytest, fake_sglang, gpus):
    options = ["tests/suite", "-m", "gpu", "--dg-server-python", str(fake_sglang)]
    run = run_pytest(*options, "--collect-only", "-q", **gpus(1))
    assert all(id_.startswith("tiny/") for id_ in collected(run))
    assert "needs 2 GPUs" not in run.text


def test_a_suite_that_needs_two_gpus_says_who_holds_one(mine, gpus, tmp_path):
    environment = gpus(2)
    options = [*mine(), "--dg-server", "none-tp2/graph", "-k", "asked_for"]
    with holding("gpu", 1, environment) as holder:
        waiting = wait_for(holder, *options, artifacts=tmp_path / "artifacts", **environment)
    assert waiting.startswith(f"waiting for 2 of 2 device(s): GPU-0 is held by pid {holder.pid} (")
    assert waiting.endswith("; GPU-1 is free\n")


def test_two_suites_measure_on_gpus_of_their_own_at_once(mine, gpus, fake_sglang, tmp_path):
    """Each of two suites that see both GPUs boots its server while the other's is up."""
    noting = tmp_path / "noting"
    noting.write_text(
        "#!/bin/sh\n"
        'case "$*" in *sglang.launch_server*)\n'
        f'  echo "$CUDA_VISIBLE_DEVICES" >> {tmp_path}/booted\n'
        f"  while [ $(wc -l < {tmp_path}/booted) -lt 2 ]; do sleep 0.05; done;;\n"
        "esac\n"
        f'exec {fake_sglang} "$@"\n'
    )
    noting.chmod(0o755)
    options = [
        *mine(),
        "--dg-server",
        "none/graph",
        "-k",
        "asked_for",
        "--dg-server-python",
        str(noting),
    ]
    environment = {**os.environ, **gpus(2)}
    suites = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options),
                *("--dg-artifacts", str(tmp_path / name)),
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        for name in ("one", "two")
    ]
    assert [suite.wait() for suite in suites] == [0, 0]
    assert sorted((tmp_path / "booted").read_text().split()) == ["0", "1"]
