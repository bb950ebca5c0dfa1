"""draftgate as somebody else has it: their environment, their git repository, and no checkout.

`tox -e wheel` makes the environments: `alone` holds the wheel with what it depends on, `crowded`
beside it the twenty plugins of tox.ini. Everything is done by processes of these environments.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Run
from tests.fake_sglang.interpreter import make_interpreter

WORK = Path(os.environ.get("TOX_WORK_DIR", Path(__file__).parents[2] / ".tox"))
ROUND = 2
"""Generations of a timed round of PROFILE."""
NONE, SPEC = "mine/none/cpu", "mine/eagle3-s3k1d4/cpu"
PROFILE = """
[target]
path = "builtin:tiny"
[drafts.eagle3]
path = "builtin:tiny-eagle3"
[prompts]
path = "builtin:tiny"
count = 2
max_new_tokens = 32
[throughput]
prompts = 2
max_new_tokens = 24
rounds = 2
[defaults]
devices = ["cpu"]
context_length = 1024
skip_tokenizer = true
max_running_requests = 8
[[servers]]
[[servers]]
draft = "eagle3"
num_steps = 3
topk = 1
num_draft_tokens = 4
acceptance_floor = 2
"""
OWN_TEST = """
def test_mine(dg_server):
    assert dg_server is not None
"""
STARTS = """#!/bin/sh
# Note in which folder each server starts.
case "$*" in *sglang.launch_server*) pwd >> {starts};; esac
exec {python} "$@"
"""


@dataclass(frozen=True)
class Repository:
    """A git repository of a user of draftgate, and the environment that they use there."""

    folder: Path
    home: Path
    python: Path
    server_python: Path

    def run(self, *command: str | Path, **environment: str) -> Run:
        """Run a command in the repository; of this process's environment it gets nothing."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "XDG_RUNTIME_DIR": str(self.home),  # leases that nobody else holds
                "CUDA_VISIBLE_DEVICES": "",
                "FAKE_SGLANG_STEP_S": "0.002",
                **environment,
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Run(done.returncode, done.stdout, done.stderr)

    def pytest(self, *arguments: str, **environment: str) -> Run:
        return self.run(self.python, "-m", "pytest", *arguments, **environment)

    def draftgate(self, *arguments: str) -> Run:
        return self.run(self.python.with_name("draftgate"), *arguments)

    def suite(self, *arguments: str, **environment: str) -> Run:
        """The suite and the user's own test on the servers of mine.toml."""
        return self.pytest(
            *("--pyargs", "draftgate.suite", "test_mine.py", "-m", "cpu"),
            *("--dg-profiles=mine.toml", f"--dg-server-python={self.server_python}"),
            *arguments,
            **environment,
        )

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def files(self) -> set[str]:
        """Everything in the repository, by path, but git's own."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {str(path) for path in found if path.parts[0] != ".git"}

    @property
    def started(self) -> list[str]:
        """Every server that was started, in this order, as the folder of its logs is called."""
        starts = self.server_python.with_name("starts")
        lines = starts.read_text().splitlines() if starts.exists() else []
        return [Path(line).parent.name for line in lines]

    @property
    def record_path(self) -> Path:
        """The record of the newest session."""
        return max(self.folder.glob("artifacts/*/record.json"))

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.record_path.read_text())
        return found

    @property
    def generations(self) -> dict[str, int]:
        """How many generations the newest session asked of each server, by its log.

        Less those of the rounds of warm-up that are recorded: how many these are is the machine's.
        """
        found = {}
        for id_, server in self.record["servers"].items():
            log = self.record_path.parent / id_.replace("/", "--") / "boot-0" / "server.log"
            throughput = server["boots"][0]["throughput"]
            rounds = len(throughput["warmup"]) if throughput else 0
            found[id_] = log.read_text().count('"POST /generate ') - ROUND * rounds
        return found


def environment(name: str) -> Path:
    """The interpreter of one of the environments of tox.ini."""
    python = WORK / name / "bin" / "python"
    assert python.exists(), f"{python} is not there: run these tests by `tox -e wheel`"
    return python


def make_repository(folder: Path, name: str) -> Repository:
    """The repository of a user of one of the environments, in a folder that holds nothing else."""
    stand_in = make_interpreter(folder / "sglang")
    server_python = folder / "engine" / "python"
    server_python.parent.mkdir()
    starts = server_python.with_name("starts")
    server_python.write_text(STARTS.format(starts=starts, python=stand_in))
    server_python.chmod(0o755)
    repository = Repository(
        folder / "repository", folder / "home", environment(name), server_python
    )
    repository.folder.mkdir()
    repository.home.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=repository.folder, check=True)
    repository.write("mine.toml", PROFILE)
    repository.write("test_mine.py", OWN_TEST)
    return repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """The repository of a user who has nothing but draftgate."""
    return make_repository(tmp_path, "alone")


@pytest.fixture
def crowded(tmp_path: Path) -> Repository:
    """The repository of a user who has twenty other plugins."""
    return make_repository(tmp_path, "crowded")
