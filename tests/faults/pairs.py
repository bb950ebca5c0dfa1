"""The pairs that faults are planted on: the built-in one, and a natural model with its draft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import planted
from tests.faults import catalogue
from tests.faults.catalogue import LAYERS, SAME_ALONE, Check, Fault, moved

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Pair:
    """A target, what is planted on it and its draft, and what the servers are asked."""

    name: str
    target: str
    faults: Mapping[str, Fault]
    controls: Mapping[str, Fault]
    asked: str
    """Tables of the profile."""
    results: Path
    command: str
    device: str = "cpu"
    replayed: bool = False
    """Whether the draft is replayed alone whatever is red, and the table tells the checks apart."""

    @property
    def planted(self) -> Mapping[str, Fault]:
        return {**self.faults, **self.controls}


TINY = Pair(
    name="tiny",
    target="builtin:tiny",
    faults=catalogue.FAULTS,
    controls=catalogue.CONTROLS,
    asked="""
[prompts]
path = "builtin:tiny"
count = 8
max_new_tokens = 96
[throughput]
prompts = 4
max_new_tokens = 32
rounds = 3
[defaults]
context_length = 1024
skip_tokenizer = true
max_running_requests = 8
""",
    results=FOLDER / "results.json",
    command="python -m tests.faults",
)


ON_CHAT = """
[prompts]
path = "builtin:chat"
count = 10
max_new_tokens = 32
[throughput]
prompts = 5
[defaults]
context_length = 2048
max_running_requests = 8
exact_text = false
"""
TRAINED = "[1, 14, 26]"
FLOOR = 1.9
"""As far below what is accepted here as the shipped profile's is below what it accepts: 93 %."""


def on_smollm2(fault: Fault, diagnosis: str = SAME_ALONE, **more: Any) -> Fault:
    return replace(fault, draft="smollm2-eagle3", floor=FLOOR, diagnosis=diagnosis, **more)


def fed(ids: str, by: planted.Plant, what: str) -> Fault:
    return on_smollm2(moved(ids, by, what, trained=TRAINED), f"trained on {TRAINED}, fed {ids}")


def named(name: str, diagnosis: str = SAME_ALONE, **more: Any) -> Fault:
    return on_smollm2(catalogue.FAULTS[name], diagnosis, **more)


SMOLLM2 = Pair(
    name="smollm2",
    target="fetched:smollm2",
    faults={
        "eagle": named("eagle", "and the server runs algorithm EAGLE: its fc is skipped"),
        "ids-later": fed("[2, 15, 27]", planted.layer_ids_later, "layer ids one too high"),
        "ids-earlier": fed("[0, 13, 25]", planted.layer_ids_earlier, "layer ids one too low"),
        "ids-late": fed(
            "[26, 27, 28]", planted.layer_ids_of_another(26, 27, 28), "the last layers' ids"
        ),
        "ids-spread": fed(
            "[7, 15, 23]", planted.layer_ids_of_another(7, 15, 23), "ids of a draft of other layers"
        ),
        "lm-head-missing": named("lm-head-missing", "the draft has no lm_head.weight"),
        **{name: named(name) for name in ("lm-head-random", "d2t-shifted", "d2t-zeros")},
        **{name: named(name) for name in ("fc-permuted", "fc-swapped", "fc-rotated")},
        "capture-swapped": named(
            "capture-swapped",
            f"trained on {TRAINED}, fed [14, 1, 26]",
            live=Check(LAYERS, "is fed [14, 1, 26]"),
        ),
        "fed-swapped": named("fed-swapped", "wiring: on the very states this server returned"),
        "fewer-steps": named("fewer-steps", "speculative_num_steps: asked for 3"),
        "cache-hit": named("cache-hit"),
    },
    controls={
        "plain": on_smollm2(Fault("SmolLM2 and its draft as they are")),
        "no-ids": on_smollm2(
            Fault("no `eagle_config`: its layers are the default", plant=planted.no_eagle_config)
        ),
        "tree": on_smollm2(catalogue.CONTROLS["tree"]),
    },
    asked=ON_CHAT
    + """
# Two threads wait for each other wherever something else runs.
env = { OMP_NUM_THREADS = "1" }
""",
    results=FOLDER / "results-smollm2.json",
    command="python -m tests.faults --pair smollm2",
    replayed=True,
)

SMOLLM2_GPU = replace(
    SMOLLM2,
    name="smollm2-gpu",
    device="gpu",
    faults={"ids-spread": SMOLLM2.faults["ids-spread"]},
    controls={},
    asked=ON_CHAT
    + """
cuda_graphs = false
attention_backend = "triton"
mem_fraction_static = 0.3
args = ["--sampling-backend", "pytorch", "--grammar-backend", "none"]
""",
    results=FOLDER / "results-smollm2-gpu.json",
    command="python -m tests.faults --pair smollm2-gpu",
)
"""The draft alone beside the engine on a GPU; docs/gpu.md has the healthy servers."""

PAIRS = {pair.name: pair for pair in (TINY, SMOLLM2, SMOLLM2_GPU)}
