"""A ready server's small print: its log without secrets, its times without the wall clock."""

from __future__ import annotations

import ast
import tracemalloc
from pathlib import Path

import pytest

import fixtures
from fixtures.engine import server
from fixtures.engine.server import mask_file

SECRETS = frozenset({"planted-key-4711", "hf_aaaaaaaa"})


@pytest.mark.parametrize("at_once", [7, 16, 17, 1 << 20])
def test_secrets_are_overwritten_where_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Also those that two pieces share."""
    monkeypatch.setattr(server, "MASKED_AT_ONCE", at_once)
    log = tmp_path / "server.log"
    before = b"a planted-key-4711 b hf_aaaaaaaa\xff\x00planted-key-4711planted-key-4711 end"
    log.write_bytes(before)
    mask_file(log, SECRETS)
    after = log.read_bytes()
    assert len(after) == len(before)
    assert b"planted" not in after
    assert b"hf_a" not in after
    assert after.split() == [b"a", b"***", b"b", b"***", b"\xff\x00***", b"***", b"end"]


def test_a_log_without_secrets_stays_untouched(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    mask_file(log, SECRETS)
    assert not log.exists()
    log.write_bytes(b"nothing to hide")
    log.chmod(0o400)
    stamp = log.stat().st_mtime_ns
    mask_file(log, frozenset())
    assert log.stat().st_mtime_ns == stamp


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
    folder = Path(fixtures.__file__).parent / room
    found = [
        f"{path.name}:{node.lineno}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("time", "time"), ("time", "time_ns")}
    ]
    assert found == []
