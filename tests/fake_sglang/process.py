"""A stand-in as a process of its own, for whoever only needs its URL."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from draftgate.engine.ports import free_port, release_port
from draftgate.models.location import locate

from tests.fake_sglang.interpreter import make_interpreter

LIMIT_S = 30.0


@contextmanager
def stand_in(folder: Path, version: str = "0.5.23", fault: str = "none") -> Iterator[str]:
    """The URL of a stand-in, started as the recorded servers were."""
    target, draft = (str(locate(f"builtin:{n}").folder) for n in ("tiny", "tiny-eagle3"))
    port = free_port()
    process = subprocess.Popen(
        [
            *(make_interpreter(folder, version), "-m", "sglang.launch_server"),
            *("--model-path", target, "--speculative-draft-model-path", draft),
            *("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"),
            *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
            *("--served-model-name", "x", "--port", str(port), "--enable-metrics"),
            *("--enable-return-hidden-states", "--device", "cpu"),
        ],
        cwd=folder,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "FAKE_SGLANG_FAULT": fault},
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        release_port(port)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
