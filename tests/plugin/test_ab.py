"""`draftgate ab` as a user runs it, on stand-in servers whose speed is chosen."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT, Run
from tests.plugin.conftest import SHORT

pytestmark = pytest.mark.extended

PROFILE = (
    SHORT
    + """devices = ["cpu"]
[[servers]]
env = { FAKE_SGLANG_STEP_S = "0.002" }
[[servers]]
label = "slow"
env = { FAKE_SGLANG_STEP_S = "0.006" }
[[servers]]
label = "long"
throughput = { max_new_tokens = 64 }
[[servers]]
label = "new"
sglang = ">=0.5.24"
"""
)
FAST, SLOW = "two/none/cpu", "two/none-slow/cpu"


@dataclass
class Command:
    """`draftgate ab` with the profile, the stand-in and a folder of the test's own."""

    tmp_path: Path
    python: Path

    @property
    def artifacts(self) -> Path:
        return self.tmp_path / "artifacts"

    def words(self, reference: str, candidate: str, *more: str) -> list[str]:
        profile = self.tmp_path / "two.toml"
        profile.write_text(PROFILE)
        return [
            *(sys.executable, "-m", "draftgate.cli", "ab", "--profiles", str(profile)),
            *("--reference", reference, "--candidate", candidate),
            *("--artifacts", str(self.artifacts), *more),
        ]

    @property
    def environment(self) -> dict[str, str]:
        # Leases of its own: a test need not wait for the servers of anybody else.
        return {**os.environ, "XDG_RUNTIME_DIR": str(self.tmp_path)}

    def run(self, reference: str, candidate: str, *more: str) -> Run:
        done = subprocess.run(
            self.words(reference, candidate, *more),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def ab(tmp_path, fake_sglang):
    return Command(tmp_path, fake_sglang)


def test_a_slower_candidate_is_found_without_a_history(ab):
    run = ab.run(FAST, SLOW, "--pairs", "3", "--server-python", str(ab.python))
    assert run.code == 1, run.text
    assert re.search(r"throughput: regression: slower: -[3-8]\d\.\d% over 3 pairs", run.out)
    order = re.findall(r"^(reference|candidate): boot (\d)", run.err, flags=re.MULTILINE)
    assert order[:6] == [
        ("reference", "1"),
        ("candidate", "1"),
        ("candidate", "2"),
        ("reference", "2"),
        ("reference", "3"),
        ("candidate", "3"),
    ]
    rows = [line.split() for line in run.out.splitlines() if re.match(r" *\d ", line)]
    assert [row[0] for row in rows] == [str(pair + 1) for pair in range(len(rows))]

    (folder,) = ab.artifacts.glob("*-ab")
    for side, server in (("reference", FAST), ("candidate", SLOW)):
        record = json.loads((folder / side / "record.json").read_text())
        boots = record["servers"][server]["boots"]
        assert [boot["index"] for boot in boots] == list(range(len(rows)))
        assert all(len(boot["throughput"]["rounds"]) == 2 for boot in boots)


def test_two_interpreters_run_one_server(ab, tmp_path):
    faster = tmp_path / "faster"
    faster.write_text(f'#!/bin/sh\nexport FAKE_SGLANG_STEP_S=0.002\nexec {ab.python} "$@"\n')
    slower = tmp_path / "slower"
    slower.write_text(f'#!/bin/sh\nexport FAKE_SGLANG_STEP_S=0.006\nexec {ab.python} "$@"\n')
    for path in (faster, slower):
        path.chmod(0o755)
    run = ab.run(str(slower), str(faster), "--server", "two/none-long/cpu", "--pairs", "3")
    assert run.code == 0, run.text
    assert "throughput: improved: faster: +" in run.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([FAST, SLOW, "--pairs", "2"], ["--pairs 2: at least 3 pairs"]),
        ([FAST, SLOW, "--server", FAST], ["no files", "leave out --server"]),
        (["PYTHON", "PYTHON"], ["--server ID says which server"]),
        (["PYTHON", SLOW], ["two interpreters, or two ids", "not one of each"]),
        ([FAST, "two/nome-slow/cpu"], ["no server of two matches", "two/none-slow/cpu"]),
        ([FAST, "two/*"], ["two/* matches", "give one"]),
        (["/nowhere/python", "/nowhere/python"], ["unknown profile ''"]),
        ([FAST, "two/none-long/cpu"], ["cannot be compared: throughput is"]),
        ([FAST, "two/none-new/cpu"], ["needs SGLang >=0.5.24", "holds 0.5.23"]),
    ],
)
def test_what_cannot_be_compared_is_one_clear_error(ab, arguments, words):
    given = [str(ab.python) if word == "PYTHON" else word for word in arguments]
    run = ab.run(*given)
    assert run.code == 2, run.text
    for word in words:
        assert word in run.err
    assert "Traceback" not in run.text
    assert not ab.artifacts.exists()


def test_ctrl_c_leaves_no_server(ab):
    words = ab.words(FAST, SLOW, "--server-python", str(ab.python))
    process = subprocess.Popen(
        words,
        cwd=ROOT,
        env=ab.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job has SIGINT ignored, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 120
    while not list(ab.artifacts.rglob("candidate/*/boot-0/server_info.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    below = psutil.Process(process.pid).children(recursive=True)
    assert below
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "draftgate: interrupted" in errors
    assert "Traceback" not in errors
    _, alive = psutil.wait_procs(below, timeout=10)
    assert alive == []
    (record,) = ab.artifacts.rglob("reference/record.json")
    assert "throughput" in record.read_text()
