"""The committed pair can be made again, bit for bit, from its seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(3600)  # minutes on two idle cores, much longer where they are shared
def test_rebuild_equals_the_committed_files(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    build = [sys.executable, "-m", "tests.rebuild.training.build", str(tmp_path), "--check"]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
