"""Running pytest on this checkout as a user does, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fake_sglang.interpreter import make_interpreter

ROOT = Path(__file__).parent.parent

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background jobs ignore Ctrl-C, and so would every process that the tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# gguf and transformers take it where there is one, no test needs it, and pytest may end in a
# segmentation fault when Python unloads its SWIG module (sentencepiece 0.2.1, Python 3.11).
sys.modules.setdefault("sentencepiece", None)  # type: ignore[arg-type]


@dataclass
class Run:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def _run(
    where: Path, tmp_path: Path, arguments: tuple[str, ...], environment: dict[str, str]
) -> Run:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "KIMI_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", f"cache_dir={tmp_path / 'cache'}", *arguments],
        cwd=where,
        env={
            **inherited,
            "CUDA_VISIBLE_DEVICES": "",
            "DRAFTGATE_CACHE": str(tmp_path / "fetched"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run_pytest(tmp_path):
    """Run `pytest ARGUMENTS` from the checkout, artifacts in a folder of the test's own."""

    def run(*arguments: str, **environment: str) -> Run:
        words = ("--dg-artifacts", str(tmp_path / "artifacts"), *arguments)
        return _run(ROOT, tmp_path, words, environment)

    return run


@pytest.fixture
def elsewhere(tmp_path) -> Path:
    """An empty folder outside any checkout."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.fixture
def run_elsewhere(tmp_path, elsewhere):
    """Run `pytest ARGUMENTS` in the folder `elsewhere`, in an environment that has draftgate."""

    def run(*arguments: str, plugin: str = "draftgate.plugin", **environment: str) -> Run:
        paths = (str(ROOT / "fixtures"), environment.pop("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        return _run(elsewhere, tmp_path, (*arguments, "-p", plugin), environment)

    return run


@pytest.fixture
def interpreter(tmp_path):
    """Make an interpreter that sees only the distributions given as {name: version}."""

    def make(**distributions: str) -> Path:
        site = tmp_path / "site"
        site.mkdir()
        for name, version in distributions.items():
            folder = site / f"{name}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} -S "$@"\n')
        python.chmod(0o755)
        return python

    return make


@pytest.fixture
def fake_sglang(tmp_path) -> Path:
    """An interpreter that starts the stand-in of SGLang 0.5.23; see tests/fake_sglang."""
    return make_interpreter(tmp_path / "fake_sglang")
