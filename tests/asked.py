"""What was asked for, as a record keeps it, with everything that a test does not care about."""

from __future__ import annotations

from typing import Any

from draftgate.catalog.spec import Draft, Prompts, Speculation, Target, Throughput
from draftgate.measure.record import RecordedSpec

SPECULATION = Speculation(Draft("mine", "/models/draft"), "EAGLE3", 3, 1, 4)


def asked(**facts: Any) -> RecordedSpec:
    """A spec of a GPU server without speculation, but for `facts`."""
    return RecordedSpec(
        **{
            "profile": "tiny",
            "source": "tiny.toml",
            "device": "gpu",
            "target": Target("/models/mine"),
            "speculation": None,
            "cuda_graphs": True,
            "tp": 1,
            "dp": 1,
            "prompts": Prompts("builtin:tiny", 32, 128),
            "throughput": Throughput(8, 64, 1, 3, gated=True),
            "reference_id": None,
            "acceptance_floor": None,
            "acceptance_ceiling": None,
            "args": (),
            "env": (),
            **facts,
        }
    )
