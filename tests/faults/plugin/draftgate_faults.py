"""SGLang plug-in: plants the fault that DRAFTGATE_FAULT names into the live server.

Each stands for a change that an SGLang release or a local patch could make. Runs inside the server
(0.5.23) and imports nothing of the rest. PACE_MS makes every verify step take that long, so that
speed is the plug-in's and not the machine's.
"""

from __future__ import annotations

import os
import time
from typing import Any

import torch

TOKENIZER = "sglang.srt.managers.tokenizer_manager.TokenizerManager"
SERVER_ARGS = "sglang.srt.server_args.ServerArgs.resolve_once"
SERVER_INFO = "sglang.srt.entrypoints.http_server.build_server_info"
TARGET = "sglang.srt.models.llama.LlamaForCausalLM.forward"
TARGET_LAYERS = "sglang.srt.models.llama.LlamaModel.forward"
DRAFT_LAYERS = "sglang.srt.models.llama_eagle3.LlamaModel.forward"


def activate() -> None:
    """Entry point, called by SGLang early in every server process."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    fault, pace_ms = os.environ.get("DRAFTGATE_FAULT"), os.environ.get("DRAFTGATE_PACE_MS")
    if fault:
        where, hook, kind = FAULTS[fault]
        HookRegistry.register(where, hook, HookType[kind])
    if pace_ms:
        HookRegistry.register(TARGET, Pace(float(pace_ms) / 1000), HookType.BEFORE)


def renamed_counters(_result: None, _self: Any, meta_info: dict[str, Any], *_: Any) -> None:
    """The counters of a reply get the names of a release to come."""
    for key in [key for key in meta_info if key.startswith("spec_")]:
        meta_info[key.replace("spec_", "speculation_")] = meta_info.pop(key)


def fewer_steps(server_args: Any, *_: Any, **__: Any) -> None:
    """The server makes do with one step, whatever it was told."""
    resolved = getattr(server_args, "_resolution_finished", False)  # in a child process it is
    if server_args.speculative_num_steps and not resolved:
        server_args.speculative_num_steps = 1
        server_args.speculative_num_draft_tokens = 2


def stale_server(info: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
    """Another launch answers on the port."""
    return {**info, "served_model_name": "yesterdays-server"}


def capture_swapped(output: Any, *_: Any, **__: Any) -> Any:
    """The target hands over its first two captured states in each other's place."""
    if isinstance(output, tuple) and output[1] is not None:
        return output[0], _swapped(output[1])
    return output


def fed_swapped(original: Any, *args: Any, **kwargs: Any) -> Any:
    """The draft swaps the first two parts of what it is handed."""
    batch = args[3] if len(args) > 3 else kwargs["forward_batch"]
    states = batch.spec_info.hidden_states
    if states.shape[-1] > args[0].config.hidden_size:
        batch.spec_info.hidden_states = _swapped(states)
    return original(*args, **kwargs)


def forgetful(original: Any, *args: Any, **kwargs: Any) -> Any:
    """The draft loses what the target hands over at every 32nd position."""
    batch = args[3] if len(args) > 3 else kwargs["forward_batch"]
    states = batch.spec_info.hidden_states
    if states.shape[-1] > args[0].config.hidden_size:
        batch.spec_info.hidden_states = states * (args[2] % 32 != 0)[:, None]
    return original(*args, **kwargs)


class CacheHit:
    """Behind a prompt that was found in the cache, the draft reads zeros."""

    hit = False

    def __call__(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        batch = args[3] if len(args) > 3 else kwargs["forward_batch"]
        if batch.forward_mode.name == "EXTEND":
            # All but the end of it was found; a header that prompts share is in a cold cache, too.
            self.hit = min(batch.extend_seq_lens_cpu) < 8
        if self.hit:
            batch.spec_info.hidden_states = torch.zeros_like(batch.spec_info.hidden_states)
        return original(*args, **kwargs)


class Pace:
    """Begins a pass of the target no sooner than `period_s` after the last one."""

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s
        self.next = 0.0

    def __call__(self, model: Any, *_: Any, **__: Any) -> None:
        if type(model).__name__ == "LlamaForCausalLM":  # the draft's class inherits this forward
            time.sleep(max(0.0, self.next - time.perf_counter()))
            self.next = time.perf_counter() + self.period_s


def _swapped(states: Any) -> Any:
    if isinstance(states, torch.Tensor):
        first, second, *rest = states.chunk(3, dim=-1)
        return torch.cat([second, first, *rest], dim=-1)
    return [states[1], states[0], *states[2:]]


FAULTS: dict[str, tuple[str, Any, str]] = {
    "renamed_counters": (
        f"{TOKENIZER}._calculate_spec_decoding_metrics",
        renamed_counters,
        "AFTER",
    ),
    "fewer_steps": (SERVER_ARGS, fewer_steps, "BEFORE"),
    "stale_server": (SERVER_INFO, stale_server, "AFTER"),
    "capture_swapped": (TARGET_LAYERS, capture_swapped, "AFTER"),
    "fed_swapped": (DRAFT_LAYERS, fed_swapped, "AROUND"),
    "forgetful": (DRAFT_LAYERS, forgetful, "AROUND"),
    "cache_hit": (DRAFT_LAYERS, CacheHit(), "AROUND"),
}
