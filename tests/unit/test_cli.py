"""What becomes of output that cannot be written, or that nobody reads to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from draftgate.cli import main

from tests.conftest import ROOT
from tests.states import REAL

COMMANDS = [("list",), ("show", str(REAL)), ("baseline",)]


def run(command, stdout):
    words = [sys.executable, "-m", "draftgate.cli", *command]
    return subprocess.run(words, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_full_output_is_one_error(command):
    with Path("/dev/full").open("w") as full:
        done = run(command, full)
    assert done.stderr == "draftgate: standard output: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_closed_pipe_is_quiet(command):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(command, writer)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 0


def test_it_says_its_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"draftgate {version('draftgate')}\n"
