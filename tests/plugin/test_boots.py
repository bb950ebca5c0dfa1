"""`--dg-boots N`: every server boots N times, in turns, and its speed is judged once."""

from __future__ import annotations

import re

import pytest

from tests.plugin.conftest import NONE, SPEC

pytestmark = pytest.mark.extended

JUDGED = "test_throughput_is_that_of_the_baseline"


def ids(run, test: str) -> list[str]:
    return re.findall(rf"::{test}\[(.*)\]$", run.out, flags=re.MULTILINE)


def test_one_boot_leaves_the_ids_as_they_are(stand_in):
    run = stand_in.run("--collect-only", "-q")
    assert ids(run, "test_throughput") == [NONE, SPEC]
    assert ids(run, JUDGED) == [NONE, SPEC]
    assert "boot" not in "".join(ids(run, r"\w+"))


def test_boots_are_outermost_and_speed_is_judged_after_the_last(stand_in):
    run = stand_in.run("--collect-only", "-q", "--dg-boots", "3")
    assert list(dict.fromkeys(ids(run, "test_(?:throughput|server_runs_what_was_asked_for)"))) == [
        NONE,
        SPEC,
        f"{NONE}-boot2",
        f"{SPEC}-boot2",
        f"{NONE}-boot3",
        f"{SPEC}-boot3",
    ]
    assert ids(run, "test_pair_and_flags_fit") == [SPEC]
    assert ids(run, JUDGED) == [NONE, SPEC]
    lines = [line for line in run.out.splitlines() if "::" in line]
    assert lines.index(next(line for line in lines if f"{JUDGED}[{NONE}]" in line)) > lines.index(
        next(line for line in lines if f"test_throughput[{NONE}-boot3]" in line)
    )


def test_each_boot_is_measured_and_judged(stand_in):
    run = stand_in.run("--dg-boots", "2")
    assert run.code == 0, run.text
    servers = stand_in.record().servers
    for id_ in (NONE, SPEC):
        boots = servers[id_].boots
        assert [boot.index for boot in boots] == [0, 1]
        assert all(boot.throughput for boot in boots)
        assert len({boot.log for boot in boots}) == 2
    # As tests/fake_sglang/sglang/probe.py writes them.
    for id_, device_ms, gap_ms in ((NONE, 1.5, 2.5), (SPEC, 3.25, 0.75)):
        for boot in servers[id_].boots:
            times = boot.step_times
            assert (times.reason, times.device_ms, times.gap_ms) == (None, device_ms, gap_ms)
            assert times.round.verify_steps in (None, times.steps)
    flags = [v.boot for v in servers[SPEC].verdicts if v.metric == "flags"]
    assert flags.count(0) == flags.count(1) == 2  # algorithm and values
    speeds = [v for v in servers[SPEC].verdicts if v.metric == "throughput"]
    assert [v.boot for v in speeds] == [1]  # once, whatever it came to on this machine
    # A, B, A, B: no server boots again before every other has.
    booted = re.findall(r"^(mine/\S+) +\d+\.\d s  imports", run.out, flags=re.MULTILINE)
    assert booted == [NONE, SPEC, NONE, SPEC]


def test_workers_run_all_boots_of_a_server(stand_in):
    run = stand_in.run("--dg-boots", "2", "-n", "2", "-k", "not throughput")
    assert run.code == 0, run.text
    servers = stand_in.record().servers
    assert [[boot.index for boot in servers[id_].boots] for id_ in (NONE, SPEC)] == [[0, 1]] * 2


@pytest.mark.parametrize("given", ["0", "many", "-1", "1.5"])
def test_a_number_of_boots_that_is_none(stand_in, given):
    run = stand_in.run("--collect-only", f"--dg-boots={given}")
    assert run.code == 4
    assert f"--dg-boots {given}: expected how often each server boots, 1 or more" in run.err


def test_an_attached_server_does_not_boot_again(stand_in):
    run = stand_in.run(
        "--collect-only", "--dg-boots", "2", "--dg-attach", f"{NONE}=http://127.0.0.1:1"
    )
    assert run.code == 4
    assert "--dg-attach and --dg-boots 2: an attached server is not booted" in run.err
