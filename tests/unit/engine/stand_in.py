"""A program in the place of SGLang, with one fault on demand. Standard library only.

``stand_in.py FAULT --port N --served-model-name NAME`` behaves like a small server of SGLang's
HTTP interface with one worker process, except for what FAULT says.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLEEP = "import time; time.sleep(600)"


def log(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Handler(BaseHTTPRequestHandler):
    """The endpoints that a boot uses."""

    fault = ""
    name = ""
    port = 0
    born = time.monotonic()

    def do_GET(self) -> None:
        if self.path == "/health":
            starting = self.fault == "slow_503" and time.monotonic() - self.born < 1.0
            return self.answer(503 if starting else 200, None)
        if self.path == "/server_info" and self.fault != "old_server_info":
            return self.answer(200, {"served_model_name": self.name, "port": self.port})
        if self.path == "/get_server_info":
            return self.answer(200, {"served_model_name": self.name, "port": self.port})
        return self.answer(404, None)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.fault in {"silent_generate", "worker_killed"}:
            log("silence begins")
            time.sleep(600)
        count = request["sampling_params"]["max_new_tokens"]
        if self.fault == "short_generate":
            count -= 1
        self.answer(200, {"output_ids": [1] * count, "meta_info": {"completion_tokens": count}})

    def answer(self, status: int, body: object) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Silence."""


def worker() -> subprocess.Popen[bytes]:
    """A child that calls itself what SGLang's scheduler calls itself."""
    return subprocess.Popen(["sglang::scheduler", "-c", SLEEP], executable=sys.executable)


def before_listening(fault: str) -> None:
    if fault == "exit_0":
        sys.exit(0)
    if fault == "exit_3":
        log("Traceback (most recent call last):")
        log('  File "/srv/sglang/srt/models/llama_eagle3.py", line 218, in forward')
        log("    hidden_states = self.fc(hidden_states)")
        log("RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x128 and 192x64)")
        sys.exit(3)
    if fault == "hang":
        time.sleep(600)
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "fatal_line":
        log("[2026-11-29 15:52:08] Scheduler hit an exception: Traceback (most recent call last):")
        log('  File "/srv/sglang/srt/managers/scheduler.py", line 12, in run')
        log("    self.forward()")
        log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
        time.sleep(600)
    if fault == "soft_watchdog":
        for _ in range(2):
            log("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)")
        time.sleep(600)
    if fault == "noisy":
        sys.stderr.write(("x" * 99 + "\n") * 2000)
        sys.stdout.write(("y" * 99 + "\n") * 2000)
        sys.stdout.flush()
    if fault == "junk":
        os.write(2, bytes(range(256)) * 400)
    if fault == "syntax":
        compile("x = 1\ndef f(:\n", "/srv/sglang/srt/models/broken.py", "exec")


def main() -> None:
    fault, *rest = sys.argv[1:]
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    given, _ = parser.parse_known_args(rest)
    if fault == "ignores_sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if fault == "grandchild":
        inner = (
            "import subprocess, sys;"
            f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True)"
        )
        subprocess.run([sys.executable, "-c", inner], check=True)
    before_listening(fault)
    child = worker()
    if fault == "worker_killed":
        threading.Timer(2.0, child.kill).start()
    Handler.fault, Handler.port = fault, given.port
    Handler.name = "somebody-else" if fault == "foreign" else given.served_model_name
    log("The server is fired up and ready to roll!")
    ThreadingHTTPServer(("127.0.0.1", given.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
