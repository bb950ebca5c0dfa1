"""A ready server's small print: its log without secrets, its times without the wall clock."""

from __future__ import annotations

import ast
import tracemalloc
from pathlib import Path

import draftgate
import pytest
from draftgate.engine.server import mask_file

SECRETS = frozenset({"planted-key-4711"})


def test_secrets_are_overwritten_where_they_stand(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    before = b"a planted-key-4711 b\r\n\xff\x00planted-key-4711 hf_" + b"a" * 30 + b"\nend"
    log.write_bytes(before)
    mask_file(log, SECRETS)
    after = log.read_bytes()
    assert len(after) == len(before)
    assert after.split() == [b"a", b"***", b"b", b"\xff\x00***", b"***", b"end"]
    assert after.count(b"\r\n") == 1


def test_a_log_without_secrets_stays_untouched(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    mask_file(log, SECRETS)
    assert not log.exists()
    log.write_bytes(b"nothing to hide")
    mask_file(log, SECRETS)
    assert log.read_bytes() == b"nothing to hide"


def test_a_long_log_is_masked_in_bounded_memory(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes((b"x" * 99 + b"\n") * 200_000 + b"planted-key-4711\n")
    tracemalloc.start()
    mask_file(log, SECRETS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
    assert log.read_bytes().endswith(b"\n***             \n")


@pytest.mark.parametrize("room", ["engine", "client", "measure", "probes"])
def test_no_duration_is_taken_from_the_wall_clock(room: str) -> None:
    """It may jump; `time.monotonic` and `time.perf_counter` do not."""
    folder = Path(draftgate.__file__).parent / room
    found = [
        f"{path.name}:{node.lineno}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("time", "time"), ("time", "time_ns")}
    ]
    assert found == []
