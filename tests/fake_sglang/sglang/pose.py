"""What this server says of itself, in the shape a real server of its version used."""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from . import faults

RECORDED = Path(__file__).parent.parent / "recorded"
VERSION = os.environ.get("FAKE_SGLANG_VERSION", "0.5.23")
ALIASES = {"tensor_parallel_size": "tp_size", "data_parallel_size": "dp_size"}
UNSET = {
    "speculative_algorithm": None,
    "speculative_draft_model_path": None,
    "speculative_num_steps": None,
    "speculative_eagle_topk": None,
    "speculative_num_draft_tokens": None,
    "enable_return_hidden_states": False,
    "enable_metrics": False,
    "device": "cuda" if os.environ.get("CUDA_VISIBLE_DEVICES") else "cpu",
}
"""What the recorded server was given and this one may not be."""


@cache
def recorded(name: str) -> dict[str, Any]:
    """The answer of a real server of this version to one request of `record.py`."""
    found: dict[str, Any] = json.loads((RECORDED / VERSION / f"{name}.json").read_text())
    return found


def resolve(argv: list[str]) -> dict[str, Any]:
    """Server arguments: as recorded, with those of the command line in their places."""
    resolved: dict[str, Any] = {**recorded("server_info")["json"], **UNSET}
    resolved["cuda_graph_config"] = json.loads(json.dumps(resolved["cuda_graph_config"]))
    words = list(argv)
    while words:
        key = words.pop(0).removeprefix("--").replace("-", "_")
        value = _value(words.pop(0)) if words and not words[0].startswith("--") else True
        if key.startswith("cuda_graph_backend_"):
            resolved["cuda_graph_config"][key.rpartition("_")[2]]["backend"] = value
        resolved[ALIASES.get(key, key)] = value
    return resolved


def _value(word: str) -> object:
    try:
        return json.loads(word)
    except ValueError:
        return word


class Pose:
    """One server's arguments and what it counted so far."""

    gaps: ClassVar[dict[str, float]] = {"near_tie": 0.03, "other_text": 3.0}
    """Faults that change a text in its last token: nats between that token and the right one."""

    def __init__(self, argv: list[str]) -> None:
        self.args = resolve(argv)
        self.tokens, self.verify_steps = (17, 10) if self.num_steps else (0, 0)
        """Of speculation; at first those of the warm-up that SGLang does itself."""
        self.right: dict[tuple[int, ...], int] = {}
        """By what came before it: the token in whose place `change_text` put another."""

    @property
    def num_steps(self) -> int:
        """Draft steps before a verify step; 0 without speculation."""
        return int(self.args["speculative_num_steps"] or 0)

    @property
    def tp(self) -> int:
        return int(self.args["tp_size"])

    @property
    def dp(self) -> int:
        return int(self.args["dp_size"])

    def mark(self, dp_rank: int, tp_rank: int) -> str:
        """How a rank is told in its log lines."""
        shown = f" DP{dp_rank}" if self.dp > 1 else ""
        return f"{shown} TP{tp_rank}" if self.tp > 1 else shown

    def captures(self, tp_rank: int) -> tuple[str, ...]:
        """What a tensor-parallel rank says that it captures: only the first tells of the draft."""
        if not self.uses_graphs:
            return ()
        if not self.num_steps:
            return ("target decode",)
        return ("target verify", "draft decode")[: 1 if tp_rank else 2]

    @property
    def uses_graphs(self) -> bool:
        on = self.args["cuda_graph_config"]["decode"]["backend"] != "disabled"
        return on and self.args["device"] != "cpu"

    def server_info(self) -> dict[str, Any]:
        """`/server_info`: the arguments, and the same once more with the averages."""
        first = recorded("server_info")["json"]
        state = dict(first["internal_states"][0])
        state.update({k: v for k, v in self.args.items() if k in state and v != first.get(k)})
        state.pop("avg_spec_accept_length", None)
        if self.verify_steps:
            state["avg_spec_accept_length"] = self.tokens / self.verify_steps
        return {**self.args, "internal_states": [state] * self.dp, "version": VERSION}

    def model_info(self) -> dict[str, Any]:
        known: dict[str, Any] = recorded("model_info")["json"]
        return known | {key: self.args[key] for key in known if key in self.args}

    def metrics(self) -> str:
        """The gauges and counters of speculation, with the labels they were recorded with."""
        values = {
            "sglang:spec_accept_length": self.tokens / max(self.verify_steps, 1),
            "sglang:spec_verify_calls_total": self.verify_steps,
        }
        lines = []
        for name, family in recorded("metrics")["families"].items():
            if name not in values:
                continue
            labels = ",".join(
                f'{label}="{self.args["served_model_name"] if label == "model_name" else 0}"'
                for label in family["labels"]
            )
            lines += [f"# TYPE {name} {family['type']}", f"{name}{{{labels}}} {values[name]}"]
        return "\n".join(lines) + "\n"

    def count(self, steps: list[list[int]]) -> None:
        """Take one finished generation into the averages."""
        if self.num_steps:
            self.tokens += sum(map(len, steps))
            self.verify_steps += len(steps) - 1

    def forget(self) -> None:
        """A flush of the cache zeroes the averages too."""
        self.tokens = self.verify_steps = 0

    def meta_info(
        self, template: dict[str, Any], prompt: list[int], steps: list[list[int]], cached: int
    ) -> dict[str, Any]:
        """`meta_info` of the steps so far (the first is the prefill), shaped as `template`."""
        tokens = sum(map(len, steps))
        right = [len(new) - 1 for new in steps[1:]]
        proposed = len(right) * (int(self.args["speculative_num_draft_tokens"] or 1) - 1)
        values = {
            "prompt_tokens": len(prompt),
            "completion_tokens": tokens,
            "cached_tokens": cached,
            "spec_accept_length": tokens / max(len(right), 1),
            "spec_accept_rate": sum(right) / max(proposed, 1),
            "spec_correct_drafts_histogram": [
                right.count(n) for n in range(max(right, default=0) + 1)
            ],
            "spec_num_correct_drafts": sum(right),
            "spec_num_proposed_drafts": proposed,
            "spec_verify_ct": len(right),
            # Aliases of 0.5.13 to 0.5.18.
            "spec_accept_token_num": sum(right),
            "spec_draft_token_num": proposed,
            "id": f"{time.monotonic_ns():032x}",
        }
        if template["finish_reason"] is not None:
            values["finish_reason"] = {"type": "length", "length": tokens}
        return {
            key: values.get(key, value)
            for key, value in template.items()
            if self.num_steps or not key.startswith("spec_")
        }

    def change_text(self, prompt: list[int], steps: list[list[int]]) -> None:
        """Another last token than the right one."""
        *before, last = (token for step in steps for token in step)
        self.right[(*prompt, *before)] = last
        steps[-1][-1] = last ^ 1

    def logprobs(self, prompt: list[int], steps: list[list[int]]) -> dict[str, Any]:
        """The likeliest tokens in the first place: the right one, the one it could be, and others
        that are out of the question."""
        right = self.right.get(tuple(prompt), steps[0][0])
        gap = self.gaps.get(faults.fault, 3.0)
        top = [[-0.5, right, None], [-0.5 - gap, right ^ 1, None]]
        top += [[-20.0, right ^ other, None] for other in (2, 4, 6)]
        return {"output_token_logprobs": top[:1], "output_top_logprobs": [top]}

    def hidden_states(self, prompt: list[int], steps: list[list[int]]) -> list[Any]:
        """One block of rows for the prompt, then one row a token, as wide as the draft's input."""
        width = self.hidden_size * (3 if self.num_steps else 1)
        row = [0.5] * width
        return [[row] * len(prompt), *([row] * (sum(map(len, steps)) - 1))]

    @property
    def hidden_size(self) -> int:
        config = Path(self.args["model_path"]) / "config.json"
        return int(json.loads(config.read_text())["hidden_size"])

    def decode_line(self, steps: list[list[int]]) -> str:
        """The line the scheduler writes while it decodes."""
        label = "cpu" if self.args["device"] == "cpu" else "cuda"
        tokens, verified = sum(map(len, steps)), max(len(steps) - 1, 1)
        spec = f"accept len: {tokens / verified:.2f}, accept rate: 0.50, " if self.num_steps else ""
        return (
            f"Decode batch, #running-req: 1, #token: {tokens}, token usage: 0.00, {spec}"
            f"{label} graph: {self.uses_graphs}, gen throughput (token/s): 99.00, #queue-req: 0"
        )
