"""Two real ranks with torch.distributed: partial sums, a fused all-reduce, one record file each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from draftgate.probes.hooks import SITE
from draftgate.probes.observe import armed, read_observation

torch = pytest.importorskip("torch")

SCRIPT = Path(__file__).with_name("tensor_parallel_rank.py")


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_every_rank_sees_the_reduced_streams_and_agrees(tmp_path: Path) -> None:
    folder = tmp_path / "observations"
    environment = {**os.environ, "PYTHONPATH": str(SITE), "OMP_NUM_THREADS": "1"}
    with armed(folder):
        ranks = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT), str(rank), "2", str(tmp_path / "meet"), str(folder)],
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            errors = [process.communicate(timeout=120)[1] for process in ranks]
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    assert [process.returncode for process in ranks] == [0, 0], errors
    seen = read_observation(folder)
    assert (seen.ranks, seen.ranks_agree) == (2, True)
    assert seen.layer_ids == (1, 2, 3)
    assert [s.distance for s in seen.fed] == [0.0] * 3
    assert seen.unobserved == ()
    assert (seen.target_hidden, seen.fc_in, seen.fc_out) == (32, 96, 32)
