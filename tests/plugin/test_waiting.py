"""What a person who waits sees in pytest's own output: who is in the way, and the boot's phases."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.plugin.conftest import holding, wait_for

pytestmark = pytest.mark.extended

FLAGS = ("tests/suite", "--dg-server", "none/cpu", "-k", "asked_for")


@pytest.fixture
def holder(tmp_path):
    """Another run of this host that holds the lease of the CPU engine."""
    with holding("cpu", 0, {"XDG_RUNTIME_DIR": str(tmp_path)}) as process:
        yield process


def test_a_waiting_run_says_who_holds_the_device(fake_sglang, holder, tmp_path):
    waiting = wait_for(
        holder,
        *(*FLAGS, "--dg-server-python", str(fake_sglang)),
        artifacts=tmp_path / "artifacts",
        XDG_RUNTIME_DIR=str(tmp_path),
    )
    assert f"1 of 1 device(s): cpu-engine is held by pid {holder.pid} (" in waiting


def test_the_lease_of_a_run_that_was_killed_is_taken_over_with_a_notice(
    run_pytest, fake_sglang, holder, tmp_path
):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    run = run_pytest(
        *(*FLAGS, "--dg-server-python", str(fake_sglang)), XDG_RUNTIME_DIR=str(tmp_path)
    )
    assert run.code == 0, run.text
    assert re.search(
        rf"cpu-engine: pid {holder.pid} .* ended without giving it back; taken over", run.out
    )


def test_two_suites_of_one_host_measure_one_after_the_other(fake_sglang, tmp_path):
    """Each server of both is alone: no boot begins before the other suite's server has ended."""
    noting = tmp_path / "noting"
    noting.write_text(
        "#!/bin/sh\n"
        'case "$*" in *sglang.launch_server*)\n'
        f'  echo "begin $$" >> {tmp_path}/order\n'
        f'  {fake_sglang} "$@" & server=$!\n'
        f'  trap "kill -9 $server; echo end $$ >> {tmp_path}/order; exit 0" TERM\n'
        "  wait; exit;;\n"
        "esac\n"
        f'exec {fake_sglang} "$@"\n'
    )
    noting.chmod(0o755)
    suites = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *FLAGS),
                *("--dg-server-python", str(noting), "--dg-artifacts", str(tmp_path / name)),
            ],
            cwd=ROOT,
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.DEVNULL,
        )
        for name in ("one", "two")
    ]
    assert [suite.wait() for suite in suites] == [0, 0]
    order = [line.split() for line in (tmp_path / "order").read_text().splitlines()]
    assert [word for word, _ in order] == ["begin", "end", "begin", "end"]
    assert order[0][1] == order[1][1] != order[2][1] == order[3][1]


def test_a_boot_tells_its_phases_and_the_times_of_the_session_before(
    run_pytest, fake_sglang, tmp_path
):
    options = [*FLAGS, "--dg-server-python", str(fake_sglang)]
    first = run_pytest(*options, XDG_RUNTIME_DIR=str(tmp_path))
    assert re.search(r"^tiny/none/cpu +[\d.]+ s  imports$", first.out, re.MULTILINE)
    assert re.search(r"^tiny/none/cpu +[\d.]+ s  ready$", first.out, re.MULTILINE)
    second = run_pytest(*options, XDG_RUNTIME_DIR=str(tmp_path))
    assert re.search(r"^tiny/none/cpu +[\d.]+ s  imports \(last time [\d.]+ s\)$", second.out, re.M)
    assert re.search(r"^tiny/none/cpu +[\d.]+ s  ready \(last time [\d.]+ s\)$", second.out, re.M)
