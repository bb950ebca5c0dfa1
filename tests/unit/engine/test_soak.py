"""The short form of `python -m tests.reliability.soak 200`."""

from __future__ import annotations

from pathlib import Path

from tests.reliability.soak import soak


def test_ten_boots_and_teardowns_leave_nothing(tmp_path: Path) -> None:
    found = soak(10, tmp_path)
    assert (found.descriptors, found.threads, found.processes, found.ports) == (0, 0, 0, 0)
