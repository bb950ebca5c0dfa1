"""The main process: the boot as SGLang logs it, the child scheduler, HTTP."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import faults, probe
from .pose import Pose, recorded

SILENCE_S = 600.0
STARTING_S = 20.0
"""How long the fault `starting_20_s` answers 503."""


class Scheduler:
    """The child process, and the requests that wait for it (for ever, if it is dead)."""

    def __init__(self) -> None:
        self.waiting: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.child = subprocess.Popen(
            ["sglang::scheduler", "-S", "-m", "sglang.scheduler"],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        faults.note_process(self.child.pid)
        assert self.child.stdout is not None
        self.child.stdout.readline()  # it is ready
        threading.Thread(target=self.deliver, daemon=True).start()

    def deliver(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            answer = json.loads(line)
            self.waiting[answer["id"]].put(answer)

    def order(self, **order: Any) -> None:
        assert self.child.stdin is not None
        with self.lock, contextlib.suppress(OSError):
            self.child.stdin.write(json.dumps(order) + "\n")
            self.child.stdin.flush()

    def generate(
        self, prompt: list[int], count: int, num_steps: int, rank: int
    ) -> Iterator[dict[str, Any]]:
        """The answers to one prompt, one for the prefill and one a verify step."""
        number = next(self.numbers)
        self.waiting[number] = queue.SimpleQueue()
        order = {"id": number, "input_ids": prompt, "max_new_tokens": count, "rank": rank}
        self.order(**order, num_steps=num_steps)
        while True:
            answer = self.waiting[number].get()
            yield answer
            if answer["is_last"]:
                del self.waiting[number]
                return


class Handler(BaseHTTPRequestHandler):
    """The paths that SGLang answers, and what is wrong with some of them."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "uvicorn", ""
    pose: Pose
    scheduler: Scheduler
    generations = itertools.count()
    turns = itertools.count()
    """Of the data-parallel ranks: each prompt goes to the next one."""
    born = time.monotonic()
    info_path = "/get_server_info" if faults.fault == "old_server_info" else "/server_info"

    def parse_request(self) -> bool:
        """Refuse whoever lacks the key, if there is one; health needs none."""
        if not super().parse_request():
            return False
        key = self.pose.args.get("api_key")
        given = self.headers.get("Authorization")
        if key is None or self.path.startswith("/health") or given == f"Bearer {key}":
            return True
        self.answer_json(401, {"error": "Unauthorized"})
        return False

    def do_GET(self) -> None:
        if self.path == "/health" or self.path == "/health_generate":
            is_starting = time.monotonic() - self.born < STARTING_S
            busy = faults.fault == "starting_20_s" and is_starting
            self.answer(503 if busy else 200, None, "")
        elif faults.fault == "hang_after_health":
            faults.note_begin()
            time.sleep(SILENCE_S)
        elif faults.fault == "web_page":
            faults.note_begin()
            self.answer(200, "text/html", "<html>It works!</html>")
        elif self.path == self.info_path:
            self.answer_json(200, self.pose.server_info())
        elif self.path == "/model_info":
            self.answer_json(200, self.pose.model_info())
        elif self.path == "/metrics" and self.pose.args["enable_metrics"]:
            self.answer(200, recorded("metrics")["content_type"], self.pose.metrics())
        else:
            self.answer_json(404, recorded("unknown_path")["json"])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.partition("?")[0] == "/flush_cache":
            self.scheduler.order(flush=True)
            self.pose.forget()
            self.answer(200, None, recorded("flush_cache")["text"])
        elif self.path == "/generate":
            self.generate(json.loads(body))
        else:
            self.answer_json(404, recorded("unknown_path")["json"])

    def generate(self, request: dict[str, Any]) -> None:
        prompts = request.get("input_ids")
        if not prompts:
            return self.answer_json(400, recorded("generate_nothing")["json"])
        generation = next(self.generations)
        if faults.begins(generation, "silent"):
            faults.log("silence begins")
            time.sleep(SILENCE_S)
        if faults.begins(generation, "scheduler_killed"):
            self.scheduler.child.kill()
        if faults.begins(generation, "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if request.get("stream"):
            return self.stream(request, prompts, generation)
        is_batch = isinstance(prompts[0], list)
        replies = [
            self.reply(request, prompt, generation)
            for prompt in (prompts if is_batch else [prompts])
        ]
        text = json.dumps(replies if is_batch else replies[0])
        if faults.begins(generation, "truncated_json"):
            text = text[: len(text) // 2]
        if faults.begins(generation, "reset"):
            return self.reset(text)
        return self.answer(200, "application/json", text)

    def reply(self, request: dict[str, Any], prompt: list[int], generation: int) -> dict[str, Any]:
        """One whole reply of `/generate`."""
        count = request["sampling_params"]["max_new_tokens"]
        count += faults.begins(generation, "too_many_tokens")
        count -= faults.begins(generation, "too_few_tokens")
        rank = next(self.turns) % self.pose.dp
        right = self.pose.num_steps - faults.begins(generation, "accepts_less")
        answers = list(self.scheduler.generate(prompt, count, right, rank))
        steps = [answer["tokens"] for answer in answers]
        if steps[1:] and self.pose.num_steps and faults.begins(generation, *self.pose.gaps):
            self.pose.change_text(prompt, steps)
        self.pose.count(steps)
        faults.log(self.pose.decode_line(steps), self.pose.mark(rank, 0))
        name = "generate_logprobs" if request.get("return_logprob") else "generate"
        meta = self.pose.meta_info(
            recorded(name)["json"]["meta_info"], prompt, steps, answers[0]["cached_tokens"]
        )
        if self.pose.dp > 1:
            meta["dp_rank"] = rank
        if request.get("return_logprob"):
            meta |= self.pose.logprobs(prompt, steps)
        if request.get("return_hidden_states"):
            meta["hidden_states"] = self.pose.hidden_states(prompt, steps)
        if faults.begins(generation, "missing_counters"):
            meta = {key: value for key, value in meta.items() if not key.startswith("spec_")}
        probe.observe(self.pose.args, len(prompt), rank)
        probe.time_steps(self.pose.args, len(steps) - 1, rank)
        return {"output_ids": [token for step in steps for token in step], "meta_info": meta}

    def stream(self, request: dict[str, Any], prompt: list[int], generation: int) -> None:
        """Server-sent events: after each step everything so far, then the end mark."""
        whole = recorded("generate_stream")
        first, middle, *_ = whole["events"]
        last = [event for event in whole["events"] if isinstance(event, dict)][-1]
        self.send_response(200)
        self.send_header("Content-Type", whole["content_type"])
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        steps: list[list[int]] = []
        count = request["sampling_params"]["max_new_tokens"]
        for answer in self.scheduler.generate(prompt, count, self.pose.num_steps, 0):
            steps.append(answer["tokens"])
            template = last if answer["is_last"] else middle if steps[1:] else first
            meta = self.pose.meta_info(
                template["meta_info"], prompt, steps, answer["cached_tokens"]
            )
            ids = [token for step in steps for token in step]
            self.chunk(f"data: {json.dumps({'output_ids': ids, 'meta_info': meta})}\n\n")
            if steps[1:] and faults.begins(generation, "reset"):
                return self.cut()
        self.pose.count(steps)
        self.chunk("data: [DONE]\n\n")
        self.chunk("")
        return None

    def chunk(self, text: str) -> None:
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())

    def reset(self, text: str) -> None:
        """Half of a body, then a reset of the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[: len(text) // 2].encode())
        self.cut()

    def cut(self) -> None:
        """RST instead of FIN."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def answer_json(self, status: int, body: object) -> None:
        self.answer(status, "application/json", json.dumps(body))

    def answer(self, status: int, content_type: str | None, text: str) -> None:
        self.send_response(status)
        if content_type is not None:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        faults.say(f'INFO:     127.0.0.1 - "{self.requestline}" {code}\n')


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A peer that went away is no news."""


def main() -> None:
    faults.before_imports_end()
    pose = Pose(sys.argv[1:])
    faults.log(f"server_args={pose.args['model_path']}")
    faults.log("Load weight begin. avail mem=18.70 GB")
    faults.log("Load weight end. elapsed=0.04 s, type=LlamaForCausalLM, avail mem=18.69 GB")
    faults.log("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 8192")
    for dp_rank, tp_rank in itertools.product(range(pose.dp), range(pose.tp)):
        for part in pose.captures(tp_rank):
            line = f"Capture {part} CUDA graph begin. backend=full, bs=[1, 2, 4, 8]"
            faults.log(line, pose.mark(dp_rank, tp_rank))
    Handler.pose, Handler.scheduler = pose, Scheduler()
    if faults.fault == "another_name":
        pose.args["served_model_name"] = "somebody-else"
        faults.note_begin()
    faults.log("max_total_num_tokens=8192, chunked_prefill_size=4096, context_len=1024")
    try:
        server = Server(("127.0.0.1", pose.args["port"]), Handler)
    except OSError as error:
        faults.say(f"ERROR:    [Errno {error.errno}] error while attempting to bind on address\n")
        sys.exit(1)
    faults.log(f"Uvicorn running on http://127.0.0.1:{pose.args['port']}")
    faults.log("The server is fired up and ready to roll!")
    server.serve_forever()


if __name__ == "__main__":
    main()
