"""Server specs for tests, of the built-in pair, any value replaced; what a command line says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from draftgate.catalog.spec import Draft, Prompts, ServerSpec, Speculation, Target, Throughput

EAGLE3 = Speculation(Draft("eagle3", "builtin:tiny-eagle3"), "EAGLE3", 3, 1, 4)


def spec_of(**changes: Any) -> ServerSpec:
    """A speculating GPU server with graphs; keyword arguments replace its values."""
    values: dict[str, Any] = {
        "id": "tiny/eagle3-s3k1d4/graph",
        "profile": "tiny",
        "source": Path("profiles/tiny.toml"),
        "device": "gpu",
        "target": Target("builtin:tiny"),
        "speculation": EAGLE3,
        "cuda_graphs": True,
        "graph_max_batch": None,
        "tp": 1,
        "dp": 1,
        "nnodes": 1,
        "context_length": None,
        "attention_backend": None,
        "max_running_requests": None,
        "mem_fraction_static": None,
        "skip_tokenizer": False,
        "args": (),
        "env": (),
        "acceptance_floor": None,
        "acceptance_ceiling": None,
        "boot_timeout_s": 60.0,
        "host": "127.0.0.1",
        "prompts": Prompts("builtin:tiny", 32, 128),
        "throughput": Throughput(16, 128, 1, 5, True),
        "reference_id": None,
    }
    return ServerSpec(**{**values, **changes})


def value_after(command: Sequence[str], name: str) -> str:
    """The word after the option `name` in a command line."""
    return command[command.index(name) + 1]
