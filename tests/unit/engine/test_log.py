from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from draftgate.engine.log import PHASES, ServerLog, hint_for

LINES_0_5_16 = (
    ("imports", "[2026-11-29 17:06:58] server_args=ServerArgs(model_path='tiny', device='cuda')"),
    ("weights", "[2026-11-29 17:07:25] Load weight begin. avail mem=139.09 GB"),
    ("kv cache", "[2026-11-29 17:07:25] Load weight end. elapsed=0.12 s, type=LlamaForCausalLM"),
    ("kv cache", "[2026-11-29 17:07:25] Load weight begin. avail mem=139.09 GB"),
    (
        "graphs (target)",
        "[2026-11-29 17:07:26] Capture target verify CUDA graph begin. backend=full, "
        "num_tokens_per_req=6, bs=[1, 2, 3, 4, 5, 6, 7, 8], avail mem=95.30 GB",
    ),
    (
        "graphs (target)",
        "[2026-11-29 17:07:27] Capture target verify CUDA graph end. elapsed=1.53 s, "
        "mem usage=0.04 GB, avail mem=95.27 GB.",
    ),
    ("graphs (target)", "[2026-11-29 17:07:27] Registered forward hook 'draftgate' on model"),
    (
        "graphs (draft)",
        "[2026-11-29 17:07:27] Capture draft decode CUDA graph begin. backend=full, "
        "num_tokens_per_req=1, bs=[1, 2, 3, 4, 5, 6, 7, 8], avail mem=95.27 GB",
    ),
    (
        "graphs (draft extend)",
        "[2026-11-29 17:07:31] Capture draft extend CUDA graph begin. backend=full, "
        "num_tokens_per_req=6, bs=[1, 2, 3, 4, 5, 6, 7, 8], avail mem=95.23 GB",
    ),
    ("warm-up", "[2026-11-29 17:07:33] max_total_num_tokens=38828526, chunked_prefill_size=8192"),
)
LINES_0_5_10 = (
    ("weights", "[2026-04-01 10:00:00 TP0] Load weight begin. avail mem=138.10 GB"),
    ("kv cache", "[2026-04-01 10:00:09 TP0] KV Cache is allocated. #tokens: 8192"),
    (
        "graphs (target)",
        "[2026-04-01 10:00:10 TP0] Capture cuda graph begin. This can take up to several minutes.",
    ),
    ("graphs (target)", "[2026-04-01 10:00:10 TP0] Capture cuda graph bs [1, 2, 4, 8]"),
    ("graphs (draft)", "[2026-04-01 10:00:11 TP0] Capture draft cuda graph begin. This can take"),
    (
        "graphs (draft extend)",
        "[2026-04-01 10:00:12 TP0] Capture draft extend cuda graph begin. This can take up to",
    ),
    ("warm-up", "[2026-04-01 10:00:13 TP0] max_total_num_tokens=8192, chunked_prefill_size=1"),
)


@pytest.mark.parametrize("lines", [LINES_0_5_16, LINES_0_5_10])
def test_phases_follow_the_lines_and_never_go_back(
    tmp_path: Path, lines: tuple[tuple[str, str], ...]
) -> None:
    path = tmp_path / "server.log"
    log = ServerLog(path)
    log.update()
    assert log.phase == "imports"
    with path.open("a") as file:
        for phase, line in lines:
            file.write(line + "\n")
            file.flush()
            log.update()
            assert log.phase == phase
    log.enter("ready")
    log.enter("weights")
    assert log.phase == "ready"
    assert list(log.durations_s()) == [name for name in PHASES if name != "ready"]
    assert all(seconds >= 0 for seconds in log.durations_s().values())
    assert log.fatal_line is None


@pytest.mark.parametrize(
    "line",
    [
        "[ts] Scheduler hit an exception: Traceback (most recent call last):",
        "[ts] Received sigquit from a child process. It usually means the child failed.",
        "[ts] SIGQUIT received. signum=3, frame=None. It usually means one child failed.",
        "[ts] Subprocess scheduler_0 (pid=12) crashed with exit code -6. Triggering SIGQUIT",
        "[ts] Initialization failed. warmup error: Traceback (most recent call last):",
        "Fatal Python error: Segmentation fault",
        "terminate called after throwing an instance of 'c10::Error'",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        "ERROR: [Errno 98] error while attempting to bind on address ('127.0.0.1', 38507): address",
    ],
)
def test_fatal_lines(tmp_path: Path, line: str) -> None:
    path = tmp_path / "server.log"
    path.write_text(f"before\n{line}\nafter\n")
    log = ServerLog(path)
    log.update()
    assert log.fatal_line == line


def test_one_soft_watchdog_is_allowed_and_a_second_is_not(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = ServerLog(path)
    line = "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)"
    path.write_text(line + "\n")
    log.update()
    assert log.fatal_line is None
    with path.open("a") as file:
        file.write(line + "\n")
    log.update()
    assert log.fatal_line == line


def test_a_line_written_in_pieces_is_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = ServerLog(path)
    path.write_text("[ts] Received sigquit from a ")
    log.update()
    assert log.fatal_line is None
    with path.open("a") as file:
        file.write("child process.\n")
    log.update()
    assert log.fatal_line == "[ts] Received sigquit from a child process."


def test_twenty_megabytes_of_junk_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    with path.open("wb") as file:
        for _ in range(20):
            file.write(bytes(range(256)) * 4096)
        file.write(b"z" * 3_000_000 + b"\nLoad weight begin\n")
    log = ServerLog(path)
    tracemalloc.start()
    try:
        log.update()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert log.phase == "weights"
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory", "out of memory"),
        ("[Errno 98] error while attempting to bind: address already in use", "took the port"),
        (
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x128 and 192x64)",
            "the captured layers and the draft's fc disagree",
        ),
        ("launch_server.py: error: unrecognized arguments: --foo", "does not know an option"),
        ("ImportError: libnuma.so.1: cannot open shared object file", "libnuma1"),
        ("ModuleNotFoundError: No module named 'torch'", "reinstall sglang"),
        (
            "ValueError: EAGLE is not supported in decode attention backend torch_native",
            "set attention_backend",
        ),
        ("RuntimeError: Cannot find any model weights with `/m`", "weights or config are missing"),
        ("IndexError: index out of range in self", "d2t"),
    ],
)
def test_hints(text: str, expected: str) -> None:
    hint = hint_for(text)
    assert hint is not None
    assert expected in hint


def test_an_unknown_text_has_no_hint() -> None:
    assert hint_for("KeyError: 'x'") is None
