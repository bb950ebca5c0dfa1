"""Record what a server answers, one JSON file a request: ``python -m tests.fake_sglang.record``.

::

    python -m tests.fake_sglang.record URL FOLDER

Run it against a server that speculates, was started with --skip-tokenizer-init,
--enable-return-hidden-states and --enable-metrics, and serves nobody else. Standard library only.
Paths in /server_info are masked; hidden states are cut to two values a row.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROMPT = [10, 11, 12, 13, 14, 15, 16, 17]
SAMPLING = {"temperature": 0.0, "max_new_tokens": 16, "ignore_eos": True}
GENERATE = {"input_ids": PROMPT, "sampling_params": SAMPLING}
TIMEOUT_S = 60.0
_PATH = re.compile(r"(?<![\w:/.])/(?:[\w.-]+/)+[\w.-]*")
_SAMPLE = re.compile(r"(?P<name>[\w:]+)(?:\{(?P<labels>[^}]*)\})? ")

REQUESTS: dict[str, tuple[str, str, Any]] = {
    "health": ("GET", "/health", None),
    "health_generate": ("GET", "/health_generate", None),
    "model_info": ("GET", "/model_info", None),
    "flush_cache": ("POST", "/flush_cache", None),
    "generate": ("POST", "/generate", GENERATE),
    "generate_batch": ("POST", "/generate", {**GENERATE, "input_ids": [PROMPT, PROMPT[::-1]]}),
    "generate_hidden": ("POST", "/generate", {**GENERATE, "return_hidden_states": True}),
    "generate_logprobs": (
        "POST",
        "/generate",
        {
            "input_ids": PROMPT,
            "sampling_params": {**SAMPLING, "max_new_tokens": 1},
            "return_logprob": True,
            "top_logprobs_num": 2,
        },
    ),
    "generate_stream": ("POST", "/generate", {**GENERATE, "stream": True}),
    "generate_nothing": ("POST", "/generate", {"sampling_params": SAMPLING}),
    "unknown_path": ("GET", "/nowhere", None),
    "server_info": ("GET", "/server_info", None),
    "metrics": ("GET", "/metrics", None),
}
"""By file name; in this order, so that the averages in /server_info are of these generations."""


def record(url: str, name: str) -> dict[str, Any]:
    """One request and its answer: status, content type, and the body as far as it can be read.

    `json` is a JSON body, `events` the payloads of a stream of server-sent events, `families` the
    metrics' names with types and labels, `text` any other.
    """
    method, path, body = REQUESTS[name]
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=TIMEOUT_S)
    try:
        connection.request(
            method,
            path,
            None if body is None else json.dumps(body),
            {"Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read().decode()
        content_type = answer.getheader("Content-Type")
    finally:
        connection.close()
    found: dict[str, Any] = {"status": answer.status, "content_type": content_type}
    if (content_type or "").startswith("text/event-stream"):
        found["events"] = [_event(block) for block in text.split("\n\n")]
    elif (content_type or "").startswith("application/json"):
        found["json"] = json.loads(text)
    elif name == "metrics" and answer.status == 200:
        found["families"] = families(text)
    else:
        found["text"] = text
    return found


def families(text: str) -> dict[str, dict[str, Any]]:
    """Of each family of a Prometheus page its type and the labels of its first sample."""
    found: dict[str, dict[str, Any]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            found[name] = {"type": kind, "labels": []}
        elif not line.startswith("#") and name and not found[name]["labels"]:
            sample = _SAMPLE.match(line)
            labels = sample["labels"] if sample else None
            found[name]["labels"] = re.findall(r'(\w+)="', labels or "")
    return found


def _event(block: str) -> Any:
    """The payload of one event; text that is none (the end mark, a stray line) stays text."""
    payload = block.removeprefix("data: ")
    return json.loads(payload) if payload.startswith("{") else block


def _fit_for_a_file(value: Any) -> Any:
    """Paths of the host masked, rows of hidden states cut."""
    if isinstance(value, dict):
        return {key: _fit_for_a_file(item) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) > 2 and all(isinstance(item, float) for item in value):
            return value[:2]
        return [_fit_for_a_file(item) for item in value]
    return _PATH.sub("/masked", value) if isinstance(value, str) else value


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name in REQUESTS:
        found = _fit_for_a_file(record(url, name))
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        sys.stdout.write(f"{name}: {found['status']} {found['content_type']}\n")


if __name__ == "__main__":
    main()
