from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from fixtures.catalog.spec import Draft, Prompts, ServerSpec, Speculation, Target, Throughput
from fixtures.engine.interpreter import Interpreter, inspect_interpreter
from fixtures.engine.plan import Launch, plan_launch
from fixtures.models.location import locate

EAGLE3 = Speculation(Draft("eagle3", "builtin:tiny-eagle3"), "EAGLE3", 3, 1, 4)


def _spec(**changes: Any) -> ServerSpec:
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
        "throughput": Throughput(16, 128, 1, 5, 0.05, True),
        "reference_id": None,
    }
    return ServerSpec(**{**values, **changes})


@pytest.fixture
def make_spec() -> Callable[..., ServerSpec]:
    """A server spec; keyword arguments replace its values."""
    return _spec


@pytest.fixture
def make_interpreter() -> Callable[[str], Interpreter]:
    return lambda version: Interpreter(
        Path("/opt/sg/bin/python"), Version(version), Path("/opt/sg")
    )


@pytest.fixture
def plan_stand_in(tmp_path: Path, fake_sglang: Path) -> Callable[..., Launch]:
    """The plan of a launch of the stand-in with a fault; keyword arguments change its spec."""

    def plan(fault: str, **changes: Any) -> Launch:
        spec = _spec(
            id=f"tiny/{fault}/cpu",
            device="cpu",
            env=(("FAKE_SGLANG_FAULT", fault),),
            **{"speculation": None, **changes},
        )
        return plan_launch(
            spec,
            interpreter=inspect_interpreter(fake_sglang),
            target_path=str(locate("builtin:tiny").folder),
            draft_path=None,
            artifacts=tmp_path / "art",
        )

    return plan
